"""The reference for people, at every door: the one answer that is neither JSON nor only for callers."""

from tests.contract.answers import check_headers
from tests.doors import Client


def test_the_reference_is_open_to_everyone(client: Client) -> None:
    answer = client.with_token("").send("GET", "/docs", Service_Version="")
    assert answer.status == 200
    assert answer.text.startswith("<!doctype html>")
    assert answer.text.endswith("</html>\n")
    check_headers(answer, {"content-type": "text/html; charset=utf-8", "x-content-type-options": "nosniff"})


def test_the_reference_is_sent_again_only_when_it_has_changed(client: Client) -> None:
    etag = client.get("/docs").headers["etag"]
    answer = client.send("GET", "/docs", If_None_Match=etag)
    assert (answer.status, answer.text) == (304, "")
    check_headers(answer, {"etag": etag})
