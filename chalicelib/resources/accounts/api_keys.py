"""API keys: bearer tokens for this API (SPEC 2.2). A token is shown once; only its digest is stored."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from chalicelib import clock
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import NO_STORE, Call, Endpoint, Made
from chalicelib.http.errors import Conflict, Forbidden, Unauthenticated, UnknownReference
from chalicelib.http.owned import OwnedResource, only_own
from chalicelib.http.resource import New
from chalicelib.model import changes
from chalicelib.model.accounts import api_keys, scopes, switching
from chalicelib.model.accounts.api_keys import ApiKey, KeyLimits
from chalicelib.model.accounts.scopes import MAX_BYTES, MAX_COUNT
from chalicelib.model.audit import trail
from chalicelib.model.base import kinds
from chalicelib.schema.fields import Described, OwnerId, Time, Timestamp, Traced
from chalicelib.schema.rules import After, entries
from chalicelib.schema.shapes import ABSENT, Shape
from chalicelib.storage.records import places, table
from chalicelib.storage.records.items import Item


def _scope(text: str) -> str:
    if scopes.is_recent(scopes.check(text)) and places.edition() < 4:
        raise ValueError("must be without an id and end with :read or :write, until RECORDS_EDITION is 4")
    return text


def _in_the_future(moment: datetime | None) -> datetime | None:
    if moment is not None and moment <= clock.now():
        raise ValueError("must be in the future")
    return moment


_FORM = "^(?:[*]|[*]:read|[a-z_]+:(?:read|write|create|revoke)(?:@[a-z]+_[0-9A-Za-z]{27})?)$"
_BOUNDED = (entries(1, MAX_COUNT), After(scopes.check_size))
Scope = Annotated[str, After(_scope, {"pattern": _FORM, "format": "scope"})]


class KeyCreate(Described):
    owner_id: OwnerId = ""
    """User or bot that owns the key. Default: the authenticated user or bot. Only admins may set another."""

    expires_at: Annotated[Time, After(_in_the_future)] = None
    """When the key expires, RFC 3339. Default: when the key that creates it expires. It cannot be changed."""

    scopes: Annotated[list[Scope], *_BOUNDED] | None = None
    f"""The scopes of the key: `*`, `*:read`, `<collection>:<right>` or `<collection>:<right>@<id>`, at most
    {MAX_BYTES:,} bytes together. The collection is the first segment of a path. The right is `read`, `write`,
    `create`, or `revoke` for `ssh_certificate_authorities`. The id limits the scope to one resource, or to the SSH
    certificates of one authority. Default: the scopes of the key that creates it. They cannot be changed.
    """


class APIKey(Described, Traced):
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
    access=only_own,
)
