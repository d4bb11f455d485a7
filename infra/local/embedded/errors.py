"""Errors in the form of AWS: JSON for requests with an X-Amz-Target header, else XML."""

import json
from xml.sax.saxutils import escape


def body(code: str, message: str, target: str) -> tuple[str, bytes]:
    """Return the content type and body of an error. `target` is the request's X-Amz-Target, or ""."""
    if target:
        return "application/x-amz-json-1.0", json.dumps({"__type": code, "message": message}).encode()
    error = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    return "text/xml", f"<ErrorResponse>{error}</ErrorResponse>".encode()
