"""The exchange of an issuer's token for a short-lived API key or SSH user certificate.

A federated credential declares which tokens an account trusts. Problems with the token, the federated credential or its
owner all get the same response. Only the log, and the usage that the API shows for the federated credential, contain
the reason.

Until the signature of the token is verified, a request can cause only one kind of write: to the cached keys of the
token's issuer.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from chalicelib import clock
from chalicelib.exchange.token_fields import (
    ACCESS_TOKEN,
    CERTIFICATE,
)
from chalicelib.federation.issuer_keys import IssuerUnreachable
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call
from chalicelib.http.errors import Conflict, InvalidRequest, ServiceUnavailable, UnknownReference
from chalicelib.http.limits import admission
from chalicelib.http.oauth import InvalidGrant, InvalidScope
from chalicelib.http.resource import EditableResource, New
from chalicelib.model.accounts import credential_usage, exchanges, federated_credentials, identities, scopes, switching
from chalicelib.model.accounts.api_keys import KeyLimits
from chalicelib.model.accounts.exchanges import Refused, VerifiedToken
from chalicelib.model.accounts.identities import Resolved
from chalicelib.model.audit.trail import EventActor, Trail
from chalicelib.model.base import kinds
from chalicelib.model.changes import Change
from chalicelib.model.limits.item_counts import TooManyItems
from chalicelib.resources.accounts import api_keys, bot_users
from chalicelib.resources.ssh import ssh_user_certificates
from chalicelib.storage.client.aws import AwsError
from chalicelib.storage.records import item_keys, writes
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import Taken

_REFUSED = (
    "The token, the federated credential or its owner is not accepted. "
    "An admin can read the reason in the usage of the credential."
)


def exchange(call: Call) -> dict[str, Any]:
    """Return the response with the API key or certificate. Raises ApiError, aws.Unavailable."""
    _check_parameters(call)
    if not item_keys.is_latest_format():
        raise ServiceUnavailable("This service cannot exchange tokens until its operator sets RECORD_FORMAT to 4.")
    credential = call.body.audience
    if kinds.FEDERATED_CREDENTIALS.has(credential):  # a text that is not an id may be a secret, so it is not logged
        call.log["federated_credential"] = credential
    try:
        return _issue(call, exchanges.verify(credential, call.body.subject_token))
    except Refused as refused:
        call.log["refused"] = refused.reason
        if refused.is_signed:
            with suppress(AwsError):  # the client gets the same response if the refusal cannot be recorded
                credential_usage.record_refusal(credential, refused.reason)
        raise InvalidGrant(_REFUSED) from None
    except IssuerUnreachable as unreachable:
        call.log.update({"refused": "issuer_unreachable", "cause": str(unreachable)})
        raise ServiceUnavailable("The issuer of the token cannot be reached. Try again later.") from None


def _check_parameters(call: Call) -> None:
    """Raise InvalidRequest for parameters that contradict each other."""
    errors = {}
    if call.body.certificate and call.body.scope:
        errors["scope"] = "must be absent if certificate is present"
    if call.body.client_id not in ("", call.body.audience):
        errors["client_id"] = "must be absent, or the same as audience"
    if errors:
        raise InvalidRequest.of(errors)


def _issue(call: Call, token: VerifiedToken) -> dict[str, Any]:
    """Find the user or bot for which a token acts. Create the key or certificate, and return the response."""
    lifetime = _choose_lifetime(call, token)
    make = _sign_certificate if call.body.certificate else _create_key
    for number in range(writes.TRIES):
        owner = identities.resolve(token, bot_users.check_new_name)
        try:
            return make(call, token, owner, lifetime)
        except Taken as taken:  # a concurrent exchange has created the user, or bound the token's subject to a user
            if owner.user and taken.key.kind == "name":
                raise Refused("owner") from None
        except TooManyItems:  # the account has the maximum number of users
            raise Refused("owner") from None
        except writes.Overtaken:
            pass
        writes.pause(number)
    raise ServiceUnavailable


def _choose_lifetime(call: Call, token: VerifiedToken) -> int:
    """Return the lifetime of the key or certificate in seconds."""
    maximum = token.credential.max_lifetime
    if (call.body.lifetime or maximum) > maximum:
        raise InvalidRequest.of(
            {"lifetime": f"must be at most {maximum}, the max_lifetime of the federated credential"}
        )
    return call.body.lifetime or maximum


def _create_key(call: Call, token: VerifiedToken, owner: Resolved, lifetime: int) -> dict[str, Any]:
    """Create an API key; return the response."""
    credential = token.credential
    end = clock.seconds() + min(lifetime, credential.account_lifetime or lifetime)
    caller = _build_caller(token, owner, KeyLimits(_choose_scopes(call, token), end))
    refusal = Refused("disabled")

    def make(caller: Caller, id: str, _request: Any) -> New:
        return api_keys.issue(caller, id, owner.owner, caller.limits, credential.rules, refusal)

    item, new = _commit(call, token, owner, caller, replace(api_keys.RESOURCE, make=make), call.body)
    switching.check_new_key(item)
    return {
        "access_token": new.once["token"],
        "issued_token_type": ACCESS_TOKEN,
        "token_type": "Bearer",
        "expires_in": end - clock.seconds(),
        "expires_at": clock.rfc3339(clock.at(end)),
        "scope": " ".join(caller.limits.scopes),
        "id": item.id,
        "owner": {"id": owner.owner.id, "name": owner.owner.name},
    }


def _choose_scopes(call: Call, token: VerifiedToken) -> tuple[str, ...]:
    """Return the scopes of the new key: the requested scopes, or by default all scopes of the federated credential.

    Raises Refused, and InvalidScope for a scope that the credential lacks or the account does not permit.
    """
    credential_scopes = token.credential.scopes
    key_scopes = tuple(call.body.scope.split()) if call.body.scope else tuple(credential_scopes)
    if not key_scopes:
        raise Refused("credential")
    if beyond := [scope for scope in key_scopes if not scopes.covers(credential_scopes, scope)]:
        rule = f"must contain only scopes that the federated credential covers; it does not cover '{beyond[0]}'"
        raise InvalidScope(f"'scope' {rule}.", {"scope": rule})
    if token.credential.require_scopes and scopes.ALL in key_scopes:
        rule = f"must not contain '{scopes.ALL}', as the account's rules require"
        raise InvalidScope(f"'scope' {rule}.", {"scope": rule})
    return key_scopes


def _sign_certificate(call: Call, token: VerifiedToken, owner: Resolved, lifetime: int) -> dict[str, Any]:
    """Sign a certificate; return the response. Raises the errors of POST /ssh_user_certificates."""
    limits = KeyLimits(tuple(token.credential.scopes), account_rates=token.credential.account_limits or {})
    caller = _build_caller(token, owner, limits)
    admission.admit_certificate(caller.limited)
    make = partial(ssh_user_certificates.make_within, timedelta(seconds=lifetime))
    resource = replace(ssh_user_certificates.RESOURCE, make=make)
    enabled = federated_credentials.require_enabled(token.chain.split(), Refused("disabled"))
    try:
        item, _ = _commit(call, token, owner, caller, resource, call.body.certificate, *enabled)
    except (InvalidRequest, UnknownReference, Conflict) as error:
        error.details = {f"certificate.{field}": rule for field, rule in error.details.items()}
        raise
    response = resource.show(item, replace(call, caller=caller))
    seconds = int(clock.parse(response["valid_until"]).timestamp()) - clock.seconds()
    return {
        "issued_token_type": CERTIFICATE,
        "token_type": "N_A",
        "expires_in": seconds,
        "ssh_user_certificate": response,
    }


def _build_caller(token: VerifiedToken, owner: Resolved, limits: KeyLimits) -> Caller:
    """Return the user or bot for which the token acts, as the caller of a request.

    The caller has no API key. So `Caller.key` is the id of the federated credential, and audit events show this id.
    """
    id, user, chain = token.credential_id, owner.owner, token.chain
    return Caller(token.credential.account, user.id, user.admin, key=id, limits=limits, name=user.name, federated=chain)


def _commit(
    call: Call,
    token: VerifiedToken,
    owner: Resolved,
    caller: Caller,
    resource: EditableResource,
    request: Any,
    *checks: Any,
) -> tuple[Item, New]:
    """Store the new key or certificate.

    If necessary, the same transaction creates the user of `owner`, or binds this user to the token's subject. Raises
    Refused, Taken, Overtaken, aws.Unavailable.
    """
    item, new = resource.new(caller, request, scope=caller.scope(resource.kind.path))
    # At most 1,000 items can refer to the same owner, and expired keys would count toward this limit. So the new item
    # has no reference to its owner.
    item = replace(item, references=())
    by = Trail(
        EventActor("federated", token.credential_id, caller.id, caller.name),
        call.change.by.operation_id,
        call.change.by.source_ip,
    )
    change = Change(by).put(item, details=new.details, more=token.details)
    if owner.user:
        change = change.put(owner.user, more=token.details)
    change.add(*new.also, *checks, *owner.binding, *exchanges.use_once(token)).commit()
    call.log["resource"] = item.id
    return item, new
