"""Headers that a route may change, as tables."""

import pytest

from chalicelib.model.edges.headers import header_changes

OF_THE_EDGE = (
    *("Host", "Content-Length", "Connection", "Transfer-Encoding", "TE", "Upgrade", "Keep-Alive", "Proxy-Connection"),
    *("X-Forwarded-For", "x_forwarded_proto", "Forwarded", "X-Envoy-Original-Path", "X-Real-IP", "X-Request-Id"),
    *("Tunnel-Auth-User-Email", "tunnel_auth_provider", "X-Forwarded-Client-Cert", "X-Remote-User", "Proxy"),
)


@pytest.mark.parametrize("name", OF_THE_EDGE)
def test_no_route_changes_what_upstreams_trust(name: str) -> None:
    with pytest.raises(ValueError, match="must not be a header that the edge or the protocol sets"):
        header_changes.check_request_name(name)


OF_RESPONSES = ("Content-Length", "connection", "Transfer_Encoding", "Upgrade", "X-Envoy-Upstream", "Content-Encoding")


@pytest.mark.parametrize("name", OF_RESPONSES)
def test_no_route_changes_how_a_response_is_framed(name: str) -> None:
    with pytest.raises(ValueError, match="must not be a header that the edge or the protocol sets"):
        header_changes.check_response_name(name)


@pytest.mark.parametrize("name", ["", ":path", "a b", "a:", "ä", "x" * 65, "a\r\nb"])
def test_other_texts_are_no_names(name: str) -> None:
    for check in (header_changes.check_request_name, header_changes.check_response_name):
        with pytest.raises(ValueError, match="must be the name of a header"):
            check(name)


@pytest.mark.parametrize("value", ["a\r\nb", "a\0", "ä", "x" * 1025, " a", "a\t"])
def test_other_texts_are_no_values(value: str) -> None:
    with pytest.raises(ValueError, match="must"):
        header_changes.check_value(value)


def test_ten_changes_of_each_sort_are_possible() -> None:
    for name in ("Authorization", "Cookie", "X-Api-Key", "Accept-Encoding"):
        assert header_changes.check_request_name(name) == name
    for name in ("Set-Cookie", "Server", "Strict-Transport-Security"):
        assert header_changes.check_response_name(name) == name
    ten = {f"X-{number}": "100% of it" for number in range(10)}
    header_changes.check_changes(ten, [*ten], header_changes.check_request_name)
    for add, remove in (({**ten, "X-10": ""}, []), ({}, [*ten, "X-10"]), ({"a": "", "A": ""}, []), ({}, ["a", "A"])):
        with pytest.raises(ValueError, match="must"):
            header_changes.check_changes(add, remove, header_changes.check_request_name)
