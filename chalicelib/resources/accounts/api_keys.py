"""API keys: bearer tokens for this API (SPEC 2.2). A token is shown once; only its digest is stored."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from chalicelib import clock
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import NO_STORE, Call, Endpoint, Made
from chalicelib.http.errors import Conflict, Forbidden, Unauthenticated, UnknownReference
from chalicelib.http.owned import OwnedResource
from chalicelib.http.resource import New
from chalicelib.model import changes
from chalicelib.model.accounts import api_keys, switching
from chalicelib.model.accounts.api_keys import ApiKey, KeyLimits
from chalicelib.model.audit import trail
from chalicelib.model.base import kinds
from chalicelib.schema.fields import DescribedShape, OwnerId, Time, Timestamp, TracedShape
from chalicelib.schema.rules import After, entries
from chalicelib.schema.shapes import ABSENT, Shape
from chalicelib.storage.records import table
from chalicelib.storage.records.items import Item


def _scope(text: str) -> str:
    if text not in api_keys.list_scopes():
        raise ValueError("must be '*', '*:read', <collection>:read or <collection>:write, for example api_keys:read")
    return text


def _in_the_future(moment: datetime | None) -> datetime | None:
    if moment is not None and moment <= clock.now():
        raise ValueError("must be in the future")
    return moment


Scope = Annotated[str, After(_scope, {"pattern": "^(?:[*]|(?:[*]|[a-z_]+):read|[a-z_]+:write)$", "format": "scope"})]


class KeyCreate(DescribedShape):
    owner_id: OwnerId = ""
    """User or bot that owns the key. Default: the authenticated user or bot. Only admins may set another."""

    expires_at: Annotated[Time, After(_in_the_future)] = None
    """When the key expires, RFC 3339. Default: when the key that creates it expires. It cannot be changed."""

    scopes: Annotated[list[Scope], entries(1, 50)] | None = None
    """The scopes of the key: `*`, `*:read`, `<collection>:read` or `<collection>:write`. The collection is the first
    segment of a path. Default: the scopes of the key that creates it. They cannot be changed.
    """


class APIKey(DescribedShape, TracedShape):
    """A bearer token for this API."""

    owner_id: str
    """User or bot that owns the key."""

    token: str | None
    """Bearer token for the Authorization header. Only in the response to the creation; null in every other response."""

    expires_at: Timestamp = ABSENT
    """When the key expires, RFC 3339; absent if it never does."""

    scopes: list[str] = ABSENT
    """The scopes of the key; absent if it may do everything."""


class Usage(Shape):
    """When an API key was last used, and how many of its requests were denied."""

    last_used_at: Timestamp | None
    """When it was last used, RFC 3339, accurate to an hour; null if never."""

    denied_last_hour: int
    """The number of its requests that got a 403 in the last hour; 100 means 100 or more."""


def make(caller: Caller, id: str, request: KeyCreate) -> New:
    owner, limits = caller.owner(request.owner_id), _limits(caller, request)
    token, digest = api_keys.new_token(id)
    ends = clock.rfc3339(datetime.fromtimestamp(limits.expires, UTC)) if limits.expires else None
    return New(
        ApiKey(
            description=request.description,
            metadata=request.metadata,
            owner_id=owner.id,
            expires_at=ends,
            scopes=list(limits.scopes),
        ),
        once={"token": token},
        unique_keys=(api_keys.unique_key(id, digest, caller.account, owner, limits),),
        also=(trail.keep_key(caller.account, owner.id, id),),
    )


def _limits(caller: Caller, request: KeyCreate) -> KeyLimits:
    """Return the scopes and end of a new key. Raises Forbidden if they exceed the caller's own."""
    own, wrong = caller.limits, {}
    named: Sequence[str] = own.scopes if request.scopes is None else request.scopes
    expires = int(request.expires_at.timestamp()) if request.expires_at else own.expires
    if beyond := [scope for scope in named if not own.covers(scope)]:
        wrong["scopes"] = f"must be within the scopes of your own key, {', '.join(own.scopes)}; {beyond[0]} is not"
    if own.expires is not None and (expires or own.expires) > own.expires:
        wrong["expires_at"] = "must not be later than the end of your own key"
    if wrong:
        raise Forbidden("A key cannot create a key with more scopes or a later end than its own.", wrong)
    return KeyLimits(tuple(named), expires)


class ApiKeys(OwnedResource):
    """API keys, with their usage, and the request's own key at `self`.

    Every key may read and delete itself, whatever its scopes.
    """

    def endpoints(self) -> tuple[Endpoint, ...]:
        path = f"{self.kind.one}/usage"
        usage = Endpoint("GET", path, 200, self.get, _usage, "usage", response=Usage, headers=NO_STORE)
        own = f"{self.kind.path}/self"
        return (
            *super().endpoints(),
            usage,
            self.endpoint("GET", own, 200, self.get_own, response=self.response),
            self.endpoint("DELETE", own, 204, self.delete_own),
        )

    def post(self, call: Call) -> Made:
        made = super().post(call)
        switching.check_new_key(made.item)
        return made

    def get_own(self, call: Call) -> Item:
        key = table.read(self.scope(call), call.caller.key)
        if key is None:  # deleted since the request was authenticated
            raise _gone()
        return key

    def delete_own(self, call: Call) -> None:
        if not changes.delete(call.change, self.scope(call), call.caller.key):
            raise _gone()


def _gone() -> Unauthenticated:
    return Unauthenticated("The API key is unknown or was deleted.")


def _usage(key: Item, _call: Call) -> dict[str, Any]:
    found = api_keys.read_usage(key.id)
    used = clock.rfc3339(datetime.fromtimestamp(found.last_used, UTC)) if found.last_used else None
    return {"last_used_at": used, "denied_last_hour": found.denied_last_hour}


RESOURCE = ApiKeys(
    kind=kinds.API_KEYS,
    stored=ApiKey,
    create=KeyCreate,
    response=APIKey,
    make=make,
    headers=NO_STORE,
    errors={"POST": (Forbidden, UnknownReference, Conflict)},
)
