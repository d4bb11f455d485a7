"""The gateway's REQUEST authorizer: who is calling, before the app is reached. Never imports the app."""

from collections.abc import Mapping
from typing import Any

from chalicelib.api import caller
from chalicelib.api.errors import Unauthenticated, UnsupportedVersion


def authorize(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """The policy for a request: allowed with the caller as its context, or denied for its version alone.

    The gateway turns the exception into its 401 and the denial into its 400 (its GatewayResponses say so). Any
    other error is a 5xx there.
    """
    try:
        who = caller.authenticate(event.get("headers") or {})
    except Unauthenticated:
        raise Exception("Unauthorized") from None  # the one word that API Gateway answers with a 401
    except UnsupportedVersion:
        return _policy("Deny", "unsupported-version", {})
    return _policy("Allow", who.id, who.as_context())


def _policy(effect: str, principal: str, context: dict[str, str]) -> dict[str, Any]:
    # For every route: with a cache in front, the gateway would hold a policy for one route against the next one.
    statement = {"Action": "execute-api:Invoke", "Effect": effect, "Resource": "*"}
    return {
        "principalId": principal,
        "policyDocument": {"Version": "2012-10-17", "Statement": [statement]},
        "context": context,
    }
