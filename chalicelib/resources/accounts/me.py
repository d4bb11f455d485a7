"""GET /me: the caller and its API key. No scope is required."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Literal

from chalicelib import clock
from chalicelib.http.endpoints import Call, Endpoint
from chalicelib.http.errors import Unauthenticated
from chalicelib.http.limits import admission
from chalicelib.model.accounts import accounts, scopes
from chalicelib.model.accounts.accounts import User
from chalicelib.model.base import records
from chalicelib.model.names import name_counts
from chalicelib.schema.fields import Timestamp
from chalicelib.schema.shapes import Shape
from chalicelib.storage.records.items import Item


class MeOwner(Shape):
    """The user or bot that owns the API key of the request."""

    id: str
    """Its id."""

    name: str
    """Its name."""

    role: Literal["admin", "member"]
    """An admin may act for the other users and bots of the account."""


class MeKey(Shape):
    """The API key of the request."""

    id: str
    """Its id."""

    scopes: list[str]
    """The scopes of the key; `*` is everything."""

    expires_at: Timestamp | None
    """When the key expires, RFC 3339; null if it never expires."""


class MeNames(Shape):
    """Counts of the account's names: names below TUNNEL_DOMAIN, ports, and reserved domains outside TUNNEL_DOMAIN."""

    held: int
    """The number of names that edges and reservations of the account have. Each name counts once."""

    cooldown: int
    """The number of names that the account released within a day. Until the day ends, only this account can take them
    again."""

    allowed: int
    """The maximum number of names that edges and reservations of the account can have. Names in cooldown do not count.
    """


class MeLimit(Shape):
    """A limit of the requests of an account or an API key. Counts are approximate."""

    per_second: int
    """The average number of requests, certificates or events per second."""

    burst: int
    """The maximum number of requests, certificates or events at once."""

    remaining: int
    """The number of requests, certificates or events that are possible at once now."""


class MeLimits(Shape):
    """The limits of the account and of the API key. Null means no limit."""

    account: MeLimit | None
    """Requests of all API keys of the account."""

    key: MeLimit | None
    """Requests of the API key."""

    certificates: MeLimit | None
    """SSH certificates that the account signs."""

    events: MeLimit | None
    """Audit events that the account reads."""


class Me(Shape):
    """The account, the user or bot, and the API key that a request comes from."""

    account: str
    """The id of the account."""

    owner: MeOwner
    """The user or bot that owns the API key of the request."""

    key: MeKey
    """The API key of the request."""

    names: MeNames
    """The names of the account: those below the domain of tunnels, ports, and reserved domains elsewhere."""

    limits: MeLimits
    """The limits of the account and of the API key; null for those without a limit."""


def _get(call: Call) -> Item:
    owner = accounts.read(call.caller.account, call.caller.id)
    if owner is None:  # the user or bot was deleted during this request
        raise Unauthenticated("The owner of the API key was deleted.")
    return owner


def _show(owner: Item, call: Call) -> dict[str, Any]:
    counts = name_counts.read(call.caller.account)
    user, limits = records.decode(User, owner), call.caller.limits
    ends = clock.rfc3339(datetime.fromtimestamp(limits.expires, UTC)) if limits.expires else None
    return {
        "account": call.caller.account,
        "owner": {"id": owner.id, "name": user.name, "role": user.role},
        "key": {"id": call.caller.key, "scopes": [*limits.scopes] or [scopes.ALL], "expires_at": ends},
        "names": {**asdict(counts), "allowed": name_counts.MAX_NAMES},
        "limits": admission.describe(call.caller.limited),
    }


class _Me:
    def endpoints(self) -> tuple[Endpoint, ...]:
        return (Endpoint("GET", "/me", 200, _get, _show, "me", response=Me),)


ROUTES = _Me()
