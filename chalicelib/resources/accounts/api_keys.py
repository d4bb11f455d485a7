"""API keys: bearer tokens for this API (SPEC 2.2). A token is shown once; only its digest is stored."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from chalicelib import clock, ids
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import NO_STORE, Call, CreatedItem, Endpoint
from chalicelib.http.errors import Conflict, Forbidden, Unauthenticated, UnknownReference
from chalicelib.http.resource import New
from chalicelib.model import changes
from chalicelib.model.accounts import (
    api_keys,
    federated_credentials,
    key_rules,
    key_usage,
    networks,
    scopes,
    switching,
    trees,
)
from chalicelib.model.accounts.accounts import Owner
from chalicelib.model.accounts.api_keys import ApiKey, KeyLimits
from chalicelib.model.accounts.key_rules import AccountRules
from chalicelib.model.accounts.networks import MAX_NETWORKS
from chalicelib.model.accounts.scopes import MAX_BYTES, MAX_COUNT
from chalicelib.model.audit import trail
from chalicelib.model.base import kinds
from chalicelib.resources.accounts import key_limits, offboarding
from chalicelib.resources.accounts.key_limits import KeyLimit, RequestedLimit
from chalicelib.resources.accounts.offboarding import MakerOffboard
from chalicelib.resources.owned import OwnedResource, require_owner
from chalicelib.schema.fields import SECRET, DescribedShape, OwnerId, Time, Timestamp, TracedShape
from chalicelib.schema.rules import After, entries
from chalicelib.schema.shapes import ABSENT, Shape
from chalicelib.storage.records import item_keys, table
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item


def _check_scope(text: str) -> str:
    if scopes.is_recent(scopes.check(text)) and not item_keys.is_latest_format():
        raise ValueError("must have no id and end with :read or :write, until the operator sets RECORD_FORMAT to 4")
    return text


def _require_future(moment: datetime | None) -> datetime | None:
    if moment is not None and moment <= clock.now():
        raise ValueError("must be in the future")
    return moment


_FORM = "^(?:[*]|[*]:read|[a-z_]+:(?:read|write|create|revoke)(?:@[a-z]+_[0-9A-Za-z]{27})?)$"
BOUNDED = (entries(1, MAX_COUNT), After(scopes.check_size))


def _check_network(text: str) -> str:
    if not item_keys.is_latest_format():
        raise ValueError("must be absent until the operator sets RECORD_FORMAT to 4")
    return networks.check(text)


def _require_true(text: str) -> str:
    if text != "true":
        raise ValueError("must be true, or absent")
    return text


_BEYOND_RULES = After(
    _require_true,
    {
        "type": "boolean",
        "const": True,
        "description": "Only keys that the account's rules would not permit any more. "
        "A page may be short or empty although `next_page_uri` is not null.",
    },
)
Network = Annotated[str, After(_check_network, {"format": "network"})]
Scope = Annotated[str, After(_check_scope, {"pattern": _FORM, "format": "scope"})]


class KeyCreate(DescribedShape):
    owner_id: OwnerId = ""
    """User or bot that owns the key. Default: the authenticated user or bot. Only admins may set another."""

    expires_at: Annotated[Time, After(_require_future)] = None
    """When the key expires, RFC 3339. Default: when the key that creates it expires. It cannot be changed."""

    scopes: Annotated[list[Scope], *BOUNDED] | None = None
    f"""The scopes of the key: `*`, `*:read`, `<collection>:<right>` or `<collection>:<right>@<id>`, at most
    {MAX_BYTES:,} bytes together. The collection is the first segment of a path. The right is `read`, `write`,
    `create`, or `revoke` for `ssh_certificate_authorities`. The id limits the scope to one resource, or to the SSH
    certificates of one authority. Default: the scopes of the key that creates it. They cannot be changed.
    """

    allowed_networks: Annotated[list[Network], entries(1, MAX_NETWORKS)] | None = None
    """The CIDR networks from which the key may be used, within those of the account. Default: those of the key that
    creates it. They cannot be changed."""

    limits: RequestedLimit | None = None
    """The limit of the key's requests, at most the account's limit. Default: the limit of the key that creates it. It
    cannot be changed."""


class APIKey(DescribedShape, TracedShape):
    """A bearer token for this API."""

    owner_id: str
    """User or bot that owns the key."""

    token: Annotated[str | None, SECRET]
    """Bearer token for the Authorization header. Only in the response to the creation; null in every other response."""

    expires_at: Timestamp = ABSENT
    """When the key expires, RFC 3339; absent if it never does."""

    scopes: list[str] = ABSENT
    """The scopes of the key; absent if it may do everything."""

    allowed_networks: list[str] = ABSENT
    """The CIDR networks from which the key may be used; absent if only the account's networks apply."""

    limits: KeyLimit = ABSENT
    """The limit of the key's requests; absent if only the account has a limit."""


class Usage(Shape):
    """When an API key was last used, and how many of its requests were denied."""

    last_used_at: Timestamp | None
    """When the key was last used, RFC 3339, accurate to an hour; null if never."""

    denied_last_hour: int
    """The number of the key's requests that got a 403 in the last hour; 100 means 100 or more."""


def make(caller: Caller, id: str, request: KeyCreate) -> New:
    return make_within(key_rules.read(caller.account), caller, id, request)


def make_within(rules: AccountRules | None, caller: Caller, id: str, request: KeyCreate) -> New:
    """Return a new key that obeys `rules`, the account's rules for API keys. With None, no rules apply to the key.

    Raises Forbidden, UnknownReference, aws.Unavailable.
    """
    owner, limits = caller.owner(request.owner_id), _choose_limits(caller, request)
    if request.limits:
        key_limits.require_within_account(limits.rates, caller.limits.account_rates)
    if rules and (errors := key_rules.find_violations(rules, limits, clock.seconds())):
        field, rule = next(iter(errors.items()))
        raise Forbidden(f"The account's rules for API keys do not permit this key: '{field}' {rule}.", errors)
    copied_rules = key_rules.list_copied_fields(rules) if rules else {"ignores_rules": True}
    disabled = Unauthenticated("The federated credential that issued the API key is disabled.")
    return issue(caller, id, owner, limits, copied_rules, disabled, request.description, request.metadata)


def issue(
    caller: Caller,
    id: str,
    owner: Owner,
    limits: KeyLimits,
    rules: Mapping[str, Any],
    disabled: Exception,
    description: str = "",
    metadata: str = "",
) -> New:
    """Return a new key. `rules` are the account's rules for API keys, as the record of the new token stores them.

    The caller's key may descend from a federated credential (see `trees`). If this credential is disabled before the
    new key is stored, the transaction fails with the exception `disabled`.
    """
    root = {trees.ROOT: caller.federated} if caller.federated else {}
    token, digest = api_keys.new_token(id)
    ends = clock.rfc3339(clock.at(limits.expires)) if limits.expires else None
    key_scopes, bounds = list(limits.scopes), list(limits.networks)
    key = api_keys.unique_key(id, digest, caller.account, owner, limits, {**rules, **root})
    enabled = federated_credentials.require_enabled(caller.federated.split(), disabled)
    return New(
        ApiKey(
            description=description,
            metadata=metadata,
            owner_id=owner.id,
            expires_at=ends,
            scopes=key_scopes,
            allowed_networks=bounds,
            limits=dict(limits.rates),
        ),
        once={"token": token},
        unique_keys=(key,),
        also=(trail.keep_key(caller.account, owner.id, id, end=limits.expires), *enabled),
        expires=api_keys.expires(limits.expires),
        unseen=root,
    )


def _choose_limits(caller: Caller, request: KeyCreate) -> KeyLimits:
    """Return the requested limits of a new key. A missing limit is copied from the caller's key.

    Raises Forbidden if a limit exceeds the limits of the caller's key.
    """
    limits, errors = caller.limits, {}
    key_scopes: Sequence[str] = limits.scopes if request.scopes is None else request.scopes
    expires = int(request.expires_at.timestamp()) if request.expires_at else limits.expires
    if beyond := [scope for scope in key_scopes if not limits.covers(scope)]:
        errors["scopes"] = (
            f"must contain only scopes that your own key covers ({', '.join(limits.scopes)}); it does not cover "
            f"'{beyond[0]}'"
        )
    if limits.expires is not None and (expires or limits.expires) > limits.expires:
        errors["expires_at"] = "must not be later than the end of your own key"
    allowed_networks = limits.networks if request.allowed_networks is None else request.allowed_networks
    if limits.networks and (outside := networks.find_outside(allowed_networks, limits.networks)):
        errors["allowed_networks"] = (
            f"must lie within the networks of your own key, {', '.join(limits.networks)}; {outside} does not"
        )
    key_rates = key_limits.build_limit(request.limits) if request.limits else limits.rates
    errors |= key_limits.find_above(key_rates, limits.rates, "must be at most {}, the limit of your own key")
    if errors:
        raise Forbidden("A key cannot create a key with more rights or a later end than its own.", errors)
    return KeyLimits(tuple(key_scopes), expires, tuple(allowed_networks), rates=key_rates)


class ApiKeys(OwnedResource):
    """API keys, with their usage, and the request's own key at `self`.

    Every key may read and delete itself, even without a scope for it.
    """

    def endpoints(self) -> tuple[Endpoint, ...]:
        path = f"{self.kind.item_path}/usage"
        usage = Endpoint("GET", path, 200, self.get, _show_usage, "usage", response=Usage, headers=NO_STORE)
        own_path = f"{self.kind.path}/self"
        listing, *endpoints = super().endpoints()
        return (
            listing._replace(query={**listing.query, "beyond_rules": _BEYOND_RULES}),
            *endpoints,
            usage,
            self.endpoint("GET", own_path, 200, self.get_own, response=self.response),
            self.endpoint("DELETE", own_path, 204, self.delete_own),
            offboarding.endpoint(self, MakerOffboard, for_owners=True),
        )

    def selection(self, call: Call) -> Callable[[Item], bool] | None:
        by_owner = super().selection(call)
        if "beyond_rules" not in call.query:
            return by_owner
        rules = key_rules.read(call.caller.account)
        return lambda item: (by_owner is None or by_owner(item)) and _exceeds(rules, item)

    def post(self, call: Call) -> CreatedItem:
        creation = super().post(call)
        switching.check_new_key(creation.item)
        return creation

    def get_own(self, call: Call) -> Item:
        key = table.read(self.scope(call), call.caller.key)
        if key is None:  # deleted during this request
            raise _build_unknown_key_error()
        return key

    def delete_own(self, call: Call) -> None:
        if not changes.delete(call.change, self.scope(call), call.caller.key):
            raise _build_unknown_key_error()


def _exceeds(rules: AccountRules, item: Item) -> bool:
    """Return whether an existing key breaks the account's current rules, or is malformed."""
    try:
        stored = ApiKey.of(item.body)
        limits = KeyLimits(tuple(stored.scopes), stored.end, tuple(stored.allowed_networks))
    except MalformedRecord:
        return True
    return bool(key_rules.find_violations(rules, limits, int(ids.created_at(item.id).timestamp())))


def _build_unknown_key_error() -> Unauthenticated:
    return Unauthenticated("The API key is unknown or was deleted.")


def _show_usage(key: Item, _call: Call) -> dict[str, Any]:
    usage = key_usage.read_usage(key.id)
    last_used_at = clock.rfc3339(datetime.fromtimestamp(usage.last_used, UTC)) if usage.last_used else None
    return {"last_used_at": last_used_at, "denied_last_hour": usage.denied_last_hour}


RESOURCE = ApiKeys(
    kind=kinds.API_KEYS,
    stored=ApiKey,
    create=KeyCreate,
    response=APIKey,
    make=make,
    headers=NO_STORE,
    errors={"POST": (Forbidden, UnknownReference, Conflict)},
    access=require_owner,
)
