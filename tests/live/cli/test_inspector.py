"""The inspector over HTTP: what requests without a browser can read and do."""

import http.client
import json
import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from tests.live.cli.inspecting import Inspected, inspecting
from tests.live.edge.running import until

SECRET = "s3cr3t-of-the-visitor"
REQUEST = f"GET /private?x=1 HTTP/1.1\r\nhost: demo\r\ncookie: {SECRET}\r\n\r\n".encode()
RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 24\r\n\r\n<script>alert(1)</script"


@pytest.fixture
def inspected() -> Iterator[Inspected]:
    with inspecting([(REQUEST, RESPONSE)]) as started:
        yield started


def send(
    inspected: Inspected, path: str, method: str = "GET", body: str = "", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body. Underscores in names of headers are hyphens."""
    connection = http.client.HTTPConnection(inspected.origin.removeprefix("http://"), timeout=10)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body or None, named)
    answer = connection.getresponse()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


def open_link(inspected: Inspected) -> str:
    """Use the one-time link. Return the cookie."""
    status, headers, _ = send(inspected, inspected.link.removeprefix(inspected.origin))
    assert (status, headers["location"]) == (303, inspected.inspector.access.folder)
    return headers["set-cookie"].partition(";")[0]


def token(inspected: Inspected, cookie: str) -> str:
    page = send(inspected, inspected.inspector.access.folder, Cookie=cookie)[2].decode()
    match = re.search(r'name="token" value="([^"]+)"', page)
    assert match
    return match[1]


def test_every_answer_has_the_strict_headers(inspected: Inspected) -> None:
    cookie, folder = open_link(inspected), inspected.inspector.access.folder
    for path in (folder, f"{folder}requests/1", f"{folder}requests/1/body/response", f"{folder}page.js", "/nothing"):
        headers = send(inspected, path, Cookie=cookie)[1]
        assert headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
            "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
        )
        assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
        assert (headers["referrer-policy"], headers["x-content-type-options"]) == ("no-referrer", "nosniff")
        assert headers["cache-control"] == "no-store"


def test_without_the_cookie_or_from_elsewhere_there_is_an_empty_403(inspected: Inspected) -> None:
    used, folder = inspected.link.removeprefix(inspected.origin), inspected.inspector.access.folder
    cookie = open_link(inspected)
    asked = {"token": token(inspected, cookie)}
    attempts = [
        send(inspected, used),
        send(inspected, folder),
        send(inspected, folder, Cookie=cookie[:-1]),
        send(inspected, "/", Cookie=cookie),
        send(inspected, f"{folder}events"),
        send(inspected, folder, Cookie=cookie, Host="localhost:80"),
        send(inspected, folder, Cookie=cookie, Origin="http://127.0.0.1:1"),
        send(inspected, folder, Cookie=cookie, Sec_Fetch_Site="same-site"),
        send(inspected, f"{folder}requests/1/replay", "POST", urlencode(asked)),
        send(inspected, f"{folder}requests/1/replay", "POST", urlencode(asked), Cookie=cookie, Origin="null"),
        send(inspected, f"{folder}requests/1/replay", "POST", "token=x", Cookie=cookie),
        send(inspected, f"{folder}requests/1/replay", "POST", Cookie=cookie),
        send(inspected, f"{folder}clear", "POST", "token=", Cookie=cookie),
    ]
    assert [(status, body) for status, _, body in attempts] == [(403, b"")] * len(attempts)
    assert inspected.arrived == []
    assert inspected.journal.find(1)


def test_the_used_link_is_reported_with_a_new_one(inspected: Inspected) -> None:
    first = inspected.link
    open_link(inspected)
    until(lambda: bool(inspected.notes))
    (note,) = inspected.notes
    assert (
        note
        == f"A browser has used the link of the inspector. To open the inspector in another browser: {inspected.link}"
    )
    assert inspected.link != first


def test_secrets_are_masked_until_they_are_requested(inspected: Inspected) -> None:
    cookie, page = open_link(inspected), f"{inspected.inspector.access.folder}requests/1"
    masked, shown = (send(inspected, path, Cookie=cookie)[2].decode() for path in (page, f"{page}?reveal=request.1"))
    assert SECRET not in masked
    assert SECRET in shown
    assert "<script>alert" not in masked
    assert "&lt;script&gt;alert(1)&lt;/script" in masked


def test_bodies_are_downloads_that_no_browser_renders(inspected: Inspected) -> None:
    cookie = open_link(inspected)
    _, headers, body = send(inspected, f"{inspected.inspector.access.folder}requests/1/body/response", Cookie=cookie)
    assert (headers["content-type"], body) == ("application/octet-stream", b"<script>alert(1)</script")
    assert headers["content-disposition"] == 'attachment; filename="body-1"'


def test_a_replay_reaches_the_local_server_with_its_mark(inspected: Inspected) -> None:
    cookie, folder = open_link(inspected), inspected.inspector.access.folder
    asked = {"token": token(inspected, cookie)}
    status, headers, _ = send(inspected, f"{folder}requests/1/replay", "POST", urlencode(asked), Cookie=cookie)
    assert (status, headers["location"]) == (303, f"{folder}requests/2")
    edited = "POST /edited HTTP/1.1\r\nhost: demo\r\n\r\nnew"
    send(inspected, f"{folder}requests/1/replay", "POST", urlencode({**asked, "text": edited}), Cookie=cookie)
    assert [(method, path) for method, path, _ in inspected.arrived] == [("GET", "/private?x=1"), ("POST", "/edited")]
    assert [headers["X-Te-Replay"] for *_, headers in inspected.arrived] == ["1", "1"]
    page = send(inspected, f"{folder}requests/2", Cookie=cookie)[2].decode()
    assert "+ again" in page
    assert "Replay of" in page

    send(inspected, f"{folder}clear", "POST", urlencode(asked), Cookie=cookie)
    assert [*inspected.journal.newest_first()] == []


def test_a_request_that_cannot_be_edited_has_a_reason(inspected: Inspected) -> None:
    cookie, folder = open_link(inspected), inspected.inspector.access.folder
    asked = {"token": token(inspected, cookie), "text": "nonsense"}
    status, _, body = send(inspected, f"{folder}requests/1/replay", "POST", urlencode(asked), Cookie=cookie)
    assert status == 409
    assert b"An empty line must follow the headers." in body
    inspected.record(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n\xff\xfe", RESPONSE)
    status, _, body = send(inspected, f"{folder}requests/2/edit", Cookie=cookie)
    assert (status, b"The request is not text" in body) == (409, True)


def test_changes_arrive_as_events(inspected: Inspected) -> None:
    cookie, folder = open_link(inspected), inspected.inspector.access.folder
    connection = http.client.HTTPConnection(inspected.origin.removeprefix("http://"), timeout=10)
    connection.request("GET", f"{folder}events", headers={"Cookie": cookie})
    answer = connection.getresponse()
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.readline() == b": live\n"
    inspected.record(REQUEST, RESPONSE)
    assert answer.readline() == b"\n"
    assert answer.readline() in (b": live\n", b"event: row\n")
    while not (line := answer.readline()).startswith(b"data: "):
        pass
    assert json.loads(line[6:])["path"] == "/private?x=1"
    assert SECRET.encode() not in line
    connection.close()
