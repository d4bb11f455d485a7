"""POST /tokens (RFC 8693), which requires no authentication.

This file and its imports load slowly, so a process imports them at its first token exchange.
"""

from typing import Any

from chalicelib.exchange.token_fields import IssuedToken, TokenRequest
from chalicelib.http.endpoints import NO_STORE, Call, Endpoint
from chalicelib.http.errors import Conflict, Forbidden, UnknownReference
from chalicelib.http.oauth import InvalidGrant


def exchange(call: Call) -> dict[str, Any]:
    """Exchange a token of an OpenID Connect issuer for an API key or an SSH user certificate."""
    from chalicelib.exchange import token_exchange

    return token_exchange.exchange(call)


class _Exchange:
    def endpoints(self) -> tuple[Endpoint, ...]:
        errors = (Forbidden, UnknownReference, Conflict, InvalidGrant)
        shapes: dict[str, Any] = {"body": TokenRequest, "response": IssuedToken, "errors": errors}
        options: dict[str, Any] = {"authorizer": None, "headers": NO_STORE, "is_oauth": True}
        return (Endpoint("POST", "/tokens", 200, exchange, **shapes, **options),)


ROUTES = _Exchange()
