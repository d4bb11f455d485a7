"""Errors in the form that AWS gives them: JSON where the request names its target in a header, else XML."""

import json
from xml.sax.saxutils import escape


def body(code: str, message: str, target: str) -> tuple[str, bytes]:
    """Return the content type and the body of an error, for a request with this X-Amz-Target ("" for none)."""
    if target:
        return "application/x-amz-json-1.0", json.dumps({"__type": code, "message": message}).encode()
    error = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    return "text/xml", f"<ErrorResponse>{error}</ErrorResponse>".encode()
