"""The inspector over HTTP: what requests without a browser can read and do."""

import http.client
import json
import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from tests.live.cli.inspecting import RunningInspector, inspecting
from tests.live.edge.running import until

SECRET = "s3cr3t-of-the-visitor"
REQUEST = f"GET /private?x=1 HTTP/1.1\r\nhost: demo\r\ncookie: {SECRET}\r\n\r\n".encode()
RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 24\r\n\r\n<script>alert(1)</script"


@pytest.fixture
def running_inspector() -> Iterator[RunningInspector]:
    with inspecting([(REQUEST, RESPONSE)]) as running_inspector:
        yield running_inspector


def send(
    running_inspector: RunningInspector, path: str, method: str = "GET", body: str = "", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body. Underscores in names of headers are hyphens."""
    connection = http.client.HTTPConnection(running_inspector.origin.removeprefix("http://"), timeout=10)
    header_fields = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body or None, header_fields)
    answer = connection.getresponse()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


def open_link(running_inspector: RunningInspector) -> str:
    """Use the one-time link. Return the cookie."""
    status, headers, _ = send(running_inspector, running_inspector.link.removeprefix(running_inspector.origin))
    assert (status, headers["location"]) == (303, running_inspector.inspector.access.folder)
    return headers["set-cookie"].partition(";")[0]


def token(running_inspector: RunningInspector, cookie: str) -> str:
    page = send(running_inspector, running_inspector.inspector.access.folder, Cookie=cookie)[2].decode()
    match = re.search(r'name="token" value="([^"]+)"', page)
    assert match
    return match[1]


def test_every_answer_has_the_strict_headers(running_inspector: RunningInspector) -> None:
    cookie, folder = open_link(running_inspector), running_inspector.inspector.access.folder
    for path in (folder, f"{folder}requests/1", f"{folder}requests/1/body/response", f"{folder}page.js", "/nothing"):
        headers = send(running_inspector, path, Cookie=cookie)[1]
        assert headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
            "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
        )
        assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
        assert (headers["referrer-policy"], headers["x-content-type-options"]) == ("no-referrer", "nosniff")
        assert headers["cache-control"] == "no-store"


def test_without_the_cookie_or_from_elsewhere_there_is_an_empty_403(running_inspector: RunningInspector) -> None:
    used, folder = (
        running_inspector.link.removeprefix(running_inspector.origin),
        running_inspector.inspector.access.folder,
    )
    cookie = open_link(running_inspector)
    form = {"token": token(running_inspector, cookie)}
    attempts = [
        send(running_inspector, used),
        send(running_inspector, folder),
        send(running_inspector, folder, Cookie=cookie[:-1]),
        send(running_inspector, "/", Cookie=cookie),
        send(running_inspector, f"{folder}events"),
        send(running_inspector, folder, Cookie=cookie, Host="localhost:80"),
        send(running_inspector, folder, Cookie=cookie, Origin="http://127.0.0.1:1"),
        send(running_inspector, folder, Cookie=cookie, Sec_Fetch_Site="same-site"),
        send(running_inspector, f"{folder}requests/1/replay", "POST", urlencode(form)),
        send(running_inspector, f"{folder}requests/1/replay", "POST", urlencode(form), Cookie=cookie, Origin="null"),
        send(running_inspector, f"{folder}requests/1/replay", "POST", "token=x", Cookie=cookie),
        send(running_inspector, f"{folder}requests/1/replay", "POST", Cookie=cookie),
        send(running_inspector, f"{folder}clear", "POST", "token=", Cookie=cookie),
    ]
    assert [(status, body) for status, _, body in attempts] == [(403, b"")] * len(attempts)
    assert running_inspector.upstream_requests == []
    assert running_inspector.journal.find(1)


def test_the_used_link_is_reported_with_a_new_one(running_inspector: RunningInspector) -> None:
    first = running_inspector.link
    open_link(running_inspector)
    until(lambda: bool(running_inspector.notes))
    (note,) = running_inspector.notes
    assert (
        note == "A browser has used the link of the inspector. To open the inspector in another browser: "
        f"{running_inspector.link}"
    )
    assert running_inspector.link != first


def test_secrets_are_masked_until_they_are_requested(running_inspector: RunningInspector) -> None:
    cookie, page = open_link(running_inspector), f"{running_inspector.inspector.access.folder}requests/1"
    masked, revealed = (
        send(running_inspector, path, Cookie=cookie)[2].decode() for path in (page, f"{page}?reveal=request.1")
    )
    assert SECRET not in masked
    assert SECRET in revealed
    assert "<script>alert" not in masked
    assert "&lt;script&gt;alert(1)&lt;/script" in masked


def test_bodies_are_downloads_that_no_browser_renders(running_inspector: RunningInspector) -> None:
    cookie = open_link(running_inspector)
    _, headers, body = send(
        running_inspector, f"{running_inspector.inspector.access.folder}requests/1/body/response", Cookie=cookie
    )
    assert (headers["content-type"], body) == ("application/octet-stream", b"<script>alert(1)</script")
    assert headers["content-disposition"] == 'attachment; filename="body-1"'


def test_a_replay_reaches_the_local_server_with_its_mark(running_inspector: RunningInspector) -> None:
    cookie, folder = open_link(running_inspector), running_inspector.inspector.access.folder
    form = {"token": token(running_inspector, cookie)}
    status, headers, _ = send(running_inspector, f"{folder}requests/1/replay", "POST", urlencode(form), Cookie=cookie)
    assert (status, headers["location"]) == (303, f"{folder}requests/2")
    edited = "POST /edited HTTP/1.1\r\nhost: demo\r\n\r\nnew"
    send(running_inspector, f"{folder}requests/1/replay", "POST", urlencode({**form, "text": edited}), Cookie=cookie)
    assert [(method, path) for method, path, _ in running_inspector.upstream_requests] == [
        ("GET", "/private?x=1"),
        ("POST", "/edited"),
    ]
    assert [headers["X-Te-Replay"] for *_, headers in running_inspector.upstream_requests] == ["1", "1"]
    page = send(running_inspector, f"{folder}requests/2", Cookie=cookie)[2].decode()
    assert "+ again" in page
    assert "Replay of" in page

    send(running_inspector, f"{folder}clear", "POST", urlencode(form), Cookie=cookie)
    assert [*running_inspector.journal.newest_first()] == []


def test_a_request_that_cannot_be_edited_has_a_reason(running_inspector: RunningInspector) -> None:
    cookie, folder = open_link(running_inspector), running_inspector.inspector.access.folder
    form = {"token": token(running_inspector, cookie), "text": "nonsense"}
    status, _, body = send(running_inspector, f"{folder}requests/1/replay", "POST", urlencode(form), Cookie=cookie)
    assert status == 409
    assert b"An empty line must follow the headers." in body
    running_inspector.record(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n\xff\xfe", RESPONSE)
    status, _, body = send(running_inspector, f"{folder}requests/2/edit", Cookie=cookie)
    assert (status, b"The request is not text" in body) == (409, True)


def test_changes_arrive_as_events(running_inspector: RunningInspector) -> None:
    cookie, folder = open_link(running_inspector), running_inspector.inspector.access.folder
    connection = http.client.HTTPConnection(running_inspector.origin.removeprefix("http://"), timeout=10)
    connection.request("GET", f"{folder}events", headers={"Cookie": cookie})
    answer = connection.getresponse()
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.readline() == b": live\n"
    running_inspector.record(REQUEST, RESPONSE)
    assert answer.readline() == b"\n"
    assert answer.readline() in (b": live\n", b"event: row\n")
    while not (line := answer.readline()).startswith(b"data: "):
        pass
    assert json.loads(line[6:])["path"] == "/private?x=1"
    assert SECRET.encode() not in line
    connection.close()
