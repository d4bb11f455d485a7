"""The gateway's REQUEST authorizer: who is calling, before the app is reached. Never imports the app."""

from collections.abc import Mapping
from typing import Any

from chalicelib.http import auth, log
from chalicelib.http.auth import Caller
from chalicelib.http.errors import Unauthenticated, UnsupportedVersion
from chalicelib.storage.aws import AwsError

log.start()


def authorize(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Return the policy for a request: Allow, with the caller as its context, or Deny, for its version alone.

    Raises Exception("Unauthorized") where the token is refused, which the gateway answers with its 401, and
    aws.AwsError, which it answers with a 5xx. It answers the denial with its 400: its GatewayResponses say so.
    """
    try:
        who = auth.authenticate(event.get("headers") or {})
    except Unauthenticated as error:
        _log(event, error.code)
        raise Exception("Unauthorized") from None  # the one word that API Gateway answers with a 401
    except UnsupportedVersion as error:
        _log(event, error.code)
        return _policy("Deny", "unsupported-version", {})
    except AwsError as error:
        _log(event, "unavailable", error=error)
        raise
    _log(event, "allowed", who)
    return _policy("Allow", who.id, who.as_context())


def _policy(effect: str, principal: str, context: dict[str, str]) -> dict[str, Any]:
    # For every route: with a cache in front, the gateway would hold a policy for one route against the next one.
    statement = {"Action": "execute-api:Invoke", "Effect": effect, "Resource": "*"}
    return {
        "principalId": principal,
        "policyDocument": {"Version": "2012-10-17", "Statement": [statement]},
        "context": context,
    }


def _log(event: Mapping[str, Any], decision: str, who: Caller | None = None, error: AwsError | None = None) -> None:
    line = {
        "operation_id": (event.get("requestContext") or {}).get("requestId"),
        "account": who.account if who else None,
        "key": who.key if who else None,
        "decision": decision,
    }
    log.request(line, error)
