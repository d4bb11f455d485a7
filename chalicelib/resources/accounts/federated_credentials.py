"""Federated credentials. Each permits some tokens of an OpenID Connect issuer to act as a user or bot, the owner.

They are for admins only. Changes require the scope `*`, because the tokens act as the owner.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chalicelib import clock
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call, CreatedItem, Endpoint
from chalicelib.http.errors import Conflict, Forbidden, InvalidRequest, UnknownReference
from chalicelib.http.resource import EditableResource, New
from chalicelib.model.accounts import credential_usage, federated_credentials, key_rules, scopes, switching, trees
from chalicelib.model.accounts.federated_credentials import FederatedCredential, SignIn
from chalicelib.model.base import kinds, records
from chalicelib.model.changes import Change
from chalicelib.resources.accounts import offboarding
from chalicelib.resources.accounts.federated_fields import (
    FederatedCredentialChange,
    FederatedCredentialCreate,
    FederatedCredentialShown,
    FederatedCredentialUsage,
)
from chalicelib.resources.accounts.offboarding import MakerOffboard
from chalicelib.schema.shapes import Shape
from chalicelib.storage.records import item_keys, table, writes
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import UniqueKey


def make(caller: Caller, id: str, request: FederatedCredentialCreate) -> New:
    """Return a new credential. Raises InvalidRequest, UnknownReference, Conflict, aws.Unavailable."""
    if not item_keys.is_latest_format():
        raise Conflict("Federated credentials are not accepted until the operator sets RECORD_FORMAT to 4.")
    if bool(request.owner_id) == bool(request.owner_claim):
        raise InvalidRequest.of(
            {"owner_id": "must be set if owner_claim is absent, and must be absent if owner_claim is set"}
        )
    values = request.values()
    stored = FederatedCredential.of(
        {
            **{name: value for name, value in values.items() if value is not None},
            "audiences": request.audiences or [id],
            "sign_in": _sign_in(values.get("sign_in")),
        }
    )
    _check(stored)
    (key,) = stored.unique_keys(caller.account, id)
    _check_size(key)
    owner_fields = key_rules.list_exchange_fields(key_rules.read(caller.account))
    if request.owner_id:
        owner = caller.owner(request.owner_id)
        owner_fields |= {"active": owner.active, "admin": owner.admin, "name": owner.name}
    present = _build_chain(caller) | {name: value for name, value in owner_fields.items() if value is not None}
    unique_key = replace(key, attributes={**key.attributes, **present})
    return New(stored, unique_keys=(unique_key,), also=(federated_credentials.count_new(caller.account),))


def _build_chain(caller: Caller) -> dict[str, str]:
    """Return the attribute that stores the chain of a new credential. Raises Conflict if the chain is too long.

    The chain consists of the federated credentials from which the caller's key descends (see `trees`).
    """
    if len(caller.federated.split()) >= federated_credentials.MAX_CHAIN:
        excess = f"More than {federated_credentials.MAX_CHAIN} federated credentials"
        raise Conflict(f"{excess} in a chain, each created with a key of the previous one, are not permitted.")
    return {trees.ROOT: caller.federated} if caller.federated else {}


def _check_size(key: UniqueKey) -> None:
    if federated_credentials.size(key) > federated_credentials.MAX_BYTES:
        rule = f"must have at most {federated_credentials.MAX_BYTES} bytes together with audiences and scopes"
        raise InvalidRequest.of({"claims": rule})


def _sign_in(values: Mapping[str, Any] | None) -> SignIn | None:
    """Return the sign-in parameters as they are stored. Return None for an empty object."""
    return SignIn.of({"scopes": ["openid", "email"], **values}) if values else None


def _check(stored: FederatedCredential) -> None:
    """Raise InvalidRequest if two fields of a credential contradict each other."""
    from chalicelib.federation import claims, issuers  # imported here, to save time in requests without a body

    errors = {}
    if missing := issuers.find_missing_tenant(stored.issuer, stored.claims):
        errors["claims"] = f"must contain {' or '.join(missing[0])}, with patterns that do not contain '{claims.ANY}'"
    if stored.provision and not stored.owner_claim:
        errors["provision"] = "must be false unless owner_claim is set"
    if stored.sign_in and stored.sign_in.client_id not in stored.audiences:
        errors["sign_in.client_id"] = "must be one of the values of 'audiences'"
    if errors:
        raise InvalidRequest.of(errors)


def _permit(caller: Caller) -> None:
    if not caller.admin:
        raise Forbidden("Only an admin may see and change federated credentials.")


def _permit_changes(caller: Caller) -> None:
    _permit(caller)
    caller.require(scopes.ALL)


class FederatedCredentials(EditableResource):
    """Federated credentials, with their usage. Changes require the scope `*`."""

    def endpoints(self) -> tuple[Endpoint, ...]:
        endpoints = super().endpoints()
        usage = f"{self.kind.item_path}/usage"
        return (
            *(
                endpoint if endpoint.method == "GET" else endpoint._replace(permits=_permit_changes)
                for endpoint in endpoints
            ),
            self.endpoint(
                "GET", usage, 200, self.get, show=_show_usage, module="usage", response=FederatedCredentialUsage
            ),
            offboarding.endpoint(self, MakerOffboard),
        )

    def show(self, item: Item, call: Call) -> dict[str, Any]:
        return super().show(trees.show(item), call)

    def patch(self, call: Call) -> Item:
        credential = super().patch(call)
        if "enabled" not in call.body.fields_set():
            return credential
        return trees.update_keys(call.caller.account, call.id)

    def post(self, call: Call) -> CreatedItem:
        creation = super().post(call)
        switching.check_new_key(creation.item)
        return creation

    def apply_changes(self, item: Item, request: Shape) -> Item:
        """Return the credential with the requested fields. Raises InvalidRequest if fields contradict each other."""
        before = records.decode(FederatedCredential, item)
        fields = request.fields_set()
        if "sign_in" in fields:
            fields["sign_in"] = _sign_in(fields["sign_in"])
        after = replace(before, **fields)
        _check(after)
        _check_size(*after.unique_keys(item.account, item.id))
        body, keys = records.body_of_change(item, before, after), records.keys_of_change(item, before, after)
        return trees.mark(item, replace(item, body=body, unique_keys=keys))


def remove(change: Change, scope: str, id: str) -> bool:
    """Remove a federated credential. Return False if it does not exist. Raises the errors of `Change.commit`.

    Raises Conflict if there are valid API keys that descend from the credential.
    """

    def attempt() -> bool:
        credential = table.find(scope, id)
        if credential is None:
            return False
        removal = change.remove(credential)
        _check_unused(credential)
        trees.close(credential)  # token exchanges with the credential can create no more API keys
        try:
            _check_unused(credential)
            removal.commit()
        except BaseException:
            trees.reopen(credential)
            raise
        return True

    return writes.retry(attempt)


def _check_unused(credential: Item) -> None:
    """Raise Conflict if API keys that descend from the credential are valid."""
    if count := len(trees.list_live_keys(credential.account, credential.id)):
        raise Conflict(f"{count} valid API keys descend from the credential: offboard the credential first.")


def _show_usage(credential: Item, call: Call) -> dict[str, Any]:
    refusals = credential_usage.read_refusals(credential.id)
    times = credential_usage.list_exchanges(call.caller.account, credential.id)
    last = {"at": clock.rfc3339(clock.at(refusals.at)), "reason": refusals.reason} if refusals.at else None
    past = clock.rfc3339(clock.at(clock.seconds() - 3600))
    return {
        "last_used_at": times[0] if times else None,
        "exchanges_last_hour": len([time for time in times if time > past]),
        "refused_last_hour": refusals.last_hour,
        "last_refusal": last,
    }


RESOURCE = FederatedCredentials(
    kind=kinds.FEDERATED_CREDENTIALS,
    stored=FederatedCredential,
    create=FederatedCredentialCreate,
    change=FederatedCredentialChange,
    response=FederatedCredentialShown,
    make=make,
    errors={
        "GET": (Forbidden,),
        "POST": (Forbidden, UnknownReference, Conflict),
        "PATCH": (Forbidden,),
        "DELETE": (Forbidden, Conflict),
    },
    permits=_permit,
    remove=remove,
)
