"""Requests of visitors: hosts, page requests, and paths to which a visitor may be sent."""

from collections.abc import Mapping

import pytest

from edge.sign_in.visits import Visit, read_host, safe_path


@pytest.mark.parametrize(
    ("authority", "host"),
    [
        ("app.example.com", "app.example.com"),
        ("APP.example.com:8443", "app.example.com"),
        ("app.example.com:", "app.example.com"),
        ("app.example.com:@evil.example", ""),  # Envoy matches it like app.example.com
        ("app.example.com:443@evil.example", ""),
        ("app.example.com:443/x", ""),
        ("app.example.com#@evil.example", ""),
        ("app.example.com\\@evil.example", ""),
        ("app.example.com ", ""),
        ("app.example.com:١", ""),
        ("[::1]:443", ""),
        ("", ""),
    ],
)
def test_only_a_host_name_is_a_host(authority: str, host: str) -> None:
    assert read_host(authority) == host


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/a?b=//c", "/a?b=//c"),
        ("/", "/"),
        (None, "/"),
        ("", "/"),
        ("a", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/\tevil.example", "/"),
        ("/a\r\nset-cookie: x", "/"),
        ("https://evil.example", "/"),
        ("/" + "a" * 2047, "/" + "a" * 2047),
        ("/" + "a" * 2048, "/"),
    ],
)
def test_a_visitor_stays_on_the_host(text: str | None, path: str) -> None:
    assert safe_path(text) == path


@pytest.mark.parametrize(
    ("method", "headers", "is_page"),
    [
        ("GET", {"sec-fetch-mode": "navigate"}, True),
        ("HEAD", {"accept": "text/html"}, True),
        ("GET", {"accept": "text/html", "sec-fetch-mode": "cors"}, False),
        ("GET", {"accept": "text/html", "sec-fetch-site": "none"}, False),
        ("GET", {"accept": "text/html", "upgrade": "websocket"}, False),
        ("POST", {"sec-fetch-mode": "navigate"}, False),
        ("GET", {}, False),
    ],
)
def test_pages_are_requested_by_browsers(method: str, headers: Mapping[str, str], is_page: bool) -> None:
    assert Visit(method, "/", "app.example.com", "192.0.2.1", headers).is_page_request == is_page


def test_a_parameter_that_occurs_twice_has_no_value() -> None:
    visit = Visit("GET", "/_service/callback?state=a&code=&state=b", "app.example.com", "192.0.2.1")
    assert [visit.parameter(name) for name in ("state", "code", "iss")] == [None, "", ""]
    assert visit.endpoint == "/_service/callback"
