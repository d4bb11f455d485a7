"""Only its own folder speaks to the embedded cloud: no web page, no other user of the machine, no other program."""

import pytest

from tests.conftest import Served, client_of
from tests.served.guarded import REFUSED, SCAN, parse_answer, send_request, sign_headers


def test_its_own_programs_reach_it_with_the_key_id_that_is_written_down(served: Served) -> None:
    key_id = served.cloud["AWS_ACCESS_KEY_ID"]
    assert (served.local / "cloud" / "key_id").read_text() == key_id
    assert client_of(served.cloud, "dynamodb").list_tables()["TableNames"] == ["tunnel-edge"]
    status, body = parse_answer(send_request(served, {**SCAN, **sign_headers(key_id)}))
    assert (status, len(body["Items"]) == body["Count"] > 0) == (200, True)


@pytest.mark.parametrize("key_id", ["", "test", "AKIAIOSFODNN7EXAMPLE"])
def test_nobody_reads_it_without_that_key_id(served: Served, key_id: str) -> None:
    assert parse_answer(send_request(served, {**SCAN, **sign_headers(key_id)})) == (403, REFUSED)
    assert parse_answer(send_request(served, SCAN)) == (403, REFUSED)
    by_address = f"/?X-Amz-Credential={key_id}%2F20260101%2Fus-east-1%2Fdynamodb%2Faws4_request"
    assert parse_answer(send_request(served, SCAN, path=by_address)) == (403, REFUSED)


@pytest.mark.parametrize("origin", ["http://127.0.0.1:8000", "null"])
def test_no_page_reads_it_even_with_that_key_id(served: Served, origin: str) -> None:
    headers = {**SCAN, **sign_headers(served.cloud["AWS_ACCESS_KEY_ID"]), "Origin": origin}
    assert parse_answer(send_request(served, headers)) == (403, REFUSED)
    assert parse_answer(send_request(served, headers, "OPTIONS")) == (403, REFUSED)
    assert parse_answer(send_request(served, {"Origin": origin}, "GET", "/_ministack/health")) == (403, REFUSED)


@pytest.mark.parametrize("path", ["/_ministack/reset", "/_ministack/config", "/_localstack/state/reset", "/_aws/x"])
def test_its_control_paths_are_closed_to_everyone(served: Served, path: str) -> None:
    assert parse_answer(send_request(served, sign_headers(served.cloud["AWS_ACCESS_KEY_ID"]), path=path)) == (
        403,
        REFUSED,
    )


def test_anyone_may_ask_whether_it_is_there(served: Served) -> None:
    assert parse_answer(send_request(served, {}, "GET", "/_ministack/health"))[0] == 200


def test_where_no_api_is_deployed_its_path_is_closed(served: Served) -> None:
    assert parse_answer(send_request(served, {}, "GET", "/restapis/a/b/_user_request_/api_keys")) == (403, REFUSED)
