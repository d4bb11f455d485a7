"""Finds the length of HTTP/1.1 bodies, and upgrades to other protocols. Does no I/O."""

import h11

from tunnel_edge.inspector.exchanges import Exchange

_HOST = ("host", "local")
_GET = h11.Request(method="GET", target="/", headers=[_HOST])
_HEAD = h11.Request(method="HEAD", target="/", headers=[_HOST])
_CONNECT = h11.Request(method="CONNECT", target="local:1", headers=[_HOST])
_UPGRADE = h11.Request(method="GET", target="/", headers=[_HOST, ("connection", "upgrade"), ("upgrade", "any")])


def body_length(head: h11.Request | h11.Response | h11.InformationalResponse, answered: str = "") -> int | None:
    """Return the length of a message's body. Return None if the headers do not determine it.

    If the message is a response, `answered` is the method of its request.
    """
    if not isinstance(head, h11.Request) and (head.status_code in (204, 304) or answered == "HEAD"):
        return 0
    # h11 has already rejected several different values of Content-Length, and unknown transfer codings.
    headers = dict(head.headers)
    if b"transfer-encoding" in headers:
        return None
    if length := headers.get(b"content-length"):
        return int(length)
    return 0 if isinstance(head, h11.Request) else None


def may_switch(exchange: Exchange) -> bool:
    """Return whether another protocol can follow a request on its connection, as after an upgrade."""
    return method(exchange) == "CONNECT" or _upgrades(exchange)


def find_answered_request(exchange: Exchange) -> h11.Request:
    """Return a minimal request, with which h11 finds the end of the response to the recorded request."""
    if method(exchange) == "HEAD":
        return _HEAD
    if method(exchange) == "CONNECT":
        return _CONNECT
    return _UPGRADE if _upgrades(exchange) else _GET


def method(exchange: Exchange) -> str:
    """Return the method of the recorded request, or ""."""
    return exchange.request.start[0] if exchange.request else ""


def _upgrades(exchange: Exchange) -> bool:
    return bool(exchange.request and exchange.request.header("upgrade"))
