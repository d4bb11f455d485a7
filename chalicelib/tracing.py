"""The trace of the current request. It is the header `traceparent` of W3C Trace Context, received and sent on."""

import re
import secrets
from contextvars import ContextVar

HEADER = "traceparent"

_FORM = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})", flags=re.ASCII)
_current: ContextVar[str] = ContextVar("traceparent", default="")


def follow(traceparent: str) -> str:
    """Continue the trace of a request in a new span. `traceparent` is the request's header.

    Return the trace's id, or "" if the header is malformed.
    """
    form = _FORM.fullmatch(traceparent.strip())
    _current.set(f"00-{form[1]}-{secrets.token_hex(8)}-{form[2]}" if form else "")
    return form[1] if form else ""


def current() -> str:
    """Return the value of the header `traceparent` for outgoing requests. Return "" if there is no trace."""
    return _current.get()


def leave() -> None:
    """End the trace of a request."""
    _current.set("")
