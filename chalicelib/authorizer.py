"""The REQUEST authorizer of API Gateway, which authenticates requests before the app. It never imports the app."""

from collections.abc import Mapping
from typing import Any

from chalicelib.http import auth, log
from chalicelib.http.auth import Caller
from chalicelib.http.errors import RateLimited, Unauthenticated
from chalicelib.storage.client.aws import AwsError

log.start()


def authorize(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Return the policy for a request: Allow with the caller as context, or Deny.

    Deny means that an address sends too many requests without a valid token. For Deny, the GatewayResponses of the
    deployment send a 429. Raises Exception("Unauthorized") for a rejected token, which API Gateway answers with a 401,
    and aws.AwsError, which API Gateway answers with a 5xx. Unsupported API versions are allowed here, because the app
    refuses them.
    """
    try:
        address = ((event.get("requestContext") or {}).get("identity") or {}).get("sourceIp") or ""
        caller = auth.authenticate(event.get("headers") or {}, address)
    except Unauthenticated as error:
        _log(event, error.code)
        raise Exception("Unauthorized") from None  # API Gateway sends a 401 only if the exception has this text
    except RateLimited as error:
        _log(event, error.code)
        return _build_policy("Deny", "rate-limited", {})
    except AwsError as error:
        _log(event, "unavailable", error=error)
        raise
    _log(event, "allowed", caller)
    return _build_policy("Allow", caller.id, caller.as_context())


def _build_policy(effect: str, principal: str, context: dict[str, str]) -> dict[str, Any]:
    # The policy covers every route, because API Gateway may cache the policy, and use it for requests to other routes.
    statement = {"Action": "execute-api:Invoke", "Effect": effect, "Resource": "*"}
    return {
        "principalId": principal,
        "policyDocument": {"Version": "2012-10-17", "Statement": [statement]},
        "context": context,
    }


def _log(event: Mapping[str, Any], decision: str, caller: Caller | None = None, error: AwsError | None = None) -> None:
    line = {
        "operation_id": (event.get("requestContext") or {}).get("requestId"),
        "account": caller.account if caller else None,
        "key": caller.key if caller else None,
        "decision": decision,
    }
    log.request(line, error)
