"""Exports recorded requests as JSON of `te requests`, as curl commands, and as HAR files. Does no I/O."""

import base64
import shlex
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tunnel_edge import __version__
from tunnel_edge.inspector import texts
from tunnel_edge.inspector.exchanges import Exchange, Message


def summarize(exchange: Exchange) -> dict[str, Any]:
    """Return the fields of an exchange for a list of exchanges."""
    request, response = exchange.request, exchange.response
    return {
        "id": exchange.id,
        "at": time_text(exchange.at),
        "client": exchange.client,
        "method": request.start[0] if request else None,
        "path": request.start[1] if request else None,
        "status": int(response.start[1]) if response else None,
        "ms": milliseconds(exchange),
        "received": exchange.received + (request.size if request else 0),
        "sent": exchange.sent + (response.size if response else 0),
        "kind": "connection" if exchange.is_stream else "request",
        "note": exchange.note,
        "replay_of": exchange.replay_of,
    }


def describe(exchange: Exchange, *, with_secrets: bool = False) -> dict[str, Any]:
    """Return all fields of an exchange, with its request and response."""
    messages = {"request": exchange.request, "response": exchange.response}
    return {
        **summarize(exchange),
        "informational": exchange.informational,
        **{name: message and _describe_message(message, with_secrets) for name, message in messages.items()},
    }


def as_curl(exchange: Exchange, url: str, *, with_secrets: bool = False) -> str:
    """Return a curl command for a POSIX shell. Raises ValueError if the request was not recorded completely."""
    request = _complete(exchange)
    method = ["--head"] if request.start[0] == "HEAD" else ["-X", request.start[0]]
    words = ["curl", "--globoff", "--path-as-is", *method]
    for name, value in texts.visible_headers(request, with_secrets=with_secrets):
        if name.lower() not in ("host", "content-length", "transfer-encoding"):
            words += ["-H", f"{name}: {value}" if value else f"{name};"]
    body = texts.join_chunks(request)
    text = texts.as_text(body)
    if body:
        words += ["--data-binary", "@-" if text is None or text.startswith("@") else text]
    command = shlex.join([*words, _join(url, request.start[1])])
    return f"{_print_bytes(body)} | {command}" if "@-" in words else command


def as_har(exchanges: list[Exchange], url: str, *, with_secrets: bool = False) -> dict[str, Any]:
    """Return a HAR file (version 1.2) of complete exchanges."""
    entries = [
        _entry(exchange, exchange.request, exchange.response, url, with_secrets)
        for exchange in exchanges
        if exchange.request and exchange.response
    ]
    return {"log": {"version": "1.2", "creator": {"name": "te", "version": __version__}, "entries": entries}}


def time_text(seconds: float) -> str:
    """Return a time as RFC 3339 with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(exchange: Exchange) -> int | None:
    """Return how many milliseconds the exchange took. Return None if it has not ended."""
    return None if exchange.ended_at is None else max(0, round((exchange.ended_at - exchange.at) * 1000))


def _complete(exchange: Exchange) -> Message:
    request = exchange.request
    if request is None or not request.is_complete or request.is_cut:
        raise ValueError("The request was not recorded completely, so it cannot be exported.")
    return request


def _describe_message(message: Message, with_secrets: bool) -> dict[str, Any]:
    body = texts.decode_body(message)
    text = texts.as_text(body)
    encoded = {"body_base64": base64.b64encode(body).decode()} if text is None else {"body": text}
    return {
        "start": texts.first_line(message),
        "headers": [list(header) for header in texts.visible_headers(message, with_secrets=with_secrets)],
        **encoded,
        "size": message.size,
        "is_cut": message.is_cut,
    }


def _print_bytes(data: bytes) -> str:
    """Return a shell command that prints bytes, including bytes that an argument cannot contain."""
    return "printf '" + "".join(f"\\{byte:03o}" for byte in data) + "'"


def _join(url: str, target: str) -> str:
    """Return the URL of a request, which begins with the URL of the tunnel."""
    return url.rstrip("/") + (target if target.startswith("/") else "/")


def _entry(exchange: Exchange, request: Message, response: Message, url: str, with_secrets: bool) -> dict[str, Any]:
    total = milliseconds(exchange) or 0
    waited = max(0, round(((exchange.answered_at or exchange.at) - exchange.at) * 1000))
    return {
        "startedDateTime": time_text(exchange.at),
        "time": total,
        "request": _har_request(request, url, with_secrets),
        "response": _har_response(response, with_secrets),
        "cache": {},
        "timings": {"send": 0, "wait": waited, "receive": max(0, total - waited)},
        "comment": exchange.note,
    }


def _har_request(message: Message, url: str, with_secrets: bool) -> dict[str, Any]:
    address = _join(url, message.start[1])
    posted = {"postData": _content(message)} if message.size else {}
    return {
        "method": message.start[0],
        "url": address,
        **_har_message(message, message.start[2], with_secrets),
        "queryString": [_pair(*parameter) for parameter in parse_qsl(urlsplit(address).query, keep_blank_values=True)],
        **posted,
    }


def _har_response(message: Message, with_secrets: bool) -> dict[str, Any]:
    return {
        "status": int(message.start[1]),
        "statusText": message.start[2],
        **_har_message(message, message.start[0], with_secrets),
        "content": {"size": len(texts.decode_body(message)), **_content(message)},
        "redirectURL": message.header("location"),
    }


def _har_message(message: Message, version: str, with_secrets: bool) -> dict[str, Any]:
    return {
        "httpVersion": f"HTTP/{version}",
        "cookies": [],
        "headers": [_pair(*header) for header in texts.visible_headers(message, with_secrets=with_secrets)],
        "headersSize": len(message.head),
        "bodySize": message.size,
    }


def _content(message: Message) -> dict[str, Any]:
    body = texts.decode_body(message)
    text = texts.as_text(body)
    kind = message.header("content-type") or "application/octet-stream"
    if text is None:
        return {"mimeType": kind, "text": base64.b64encode(body).decode(), "encoding": "base64"}
    return {"mimeType": kind, "text": text}


def _pair(name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": value}
