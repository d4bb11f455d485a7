"""API keys: whose token it is, and what it may do. A token is found by the id in it; only its digest is stored.

A scope is `*` for everything, or `<collection>:read` or `<collection>:write`. A collection is the first segment of a
path, with all that lies beneath; write does not include read. What a key may know of itself needs none.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import Any

from chalicelib import clock, ids
from chalicelib.model import accounts, kinds
from chalicelib.model.accounts import Owner
from chalicelib.model.records import Owned
from chalicelib.storage import table
from chalicelib.storage.unique_keys import UniqueKey

ALL, READ_ALL = "*", "*:read"

_NEED_NO_SCOPE = frozenset(("/me", "/api_keys/self"))  # paths
_KIND = "token"
_ID = 27  # characters of a token are those of its key's id
_NOTED_EVERY = 60 * 60  # seconds
_MAX_NOTED = 10_000

# The Unix second at which this process noted the use of a key, by its id: what the caller knows may come from the cache
# of the gateway's authorizer, and be older.
_noted: dict[str, int] = {}


@dataclass(frozen=True, kw_only=True)
class ApiKey(Owned):
    """The stored form of an API key: without its token, and with an end and scopes only where it has them."""

    token: None = None
    expires_at: str | None = None
    scopes: list[str] = field(default_factory=list)

    TOLD = ("scopes", "expires_at", "owner_id")

    def to_record(self) -> dict[str, Any]:
        optional = ("expires_at", "scopes")
        return {name: value for name, value in vars(self).items() if value or name not in optional}


@dataclass(frozen=True)
class Reach:
    """The limits of an API key: its scopes, of which none means all, and the Unix second of its end, None for never."""

    scopes: tuple[str, ...] = ()
    expires: int | None = None

    def covers(self, scope: str) -> bool:
        """Tell whether a key of this reach may do all that a scope allows."""
        own = self.scopes
        return not own or ALL in own or scope in own or (scope.endswith(":read") and READ_ALL in own)


EVERYTHING = Reach()


@dataclass(frozen=True)
class Holder:
    """The API key of a token: its account, owner, id and limits; `used` is the Unix second of its last use, or 0."""

    account: str
    owner: Owner
    key: str
    reach: Reach = EVERYTHING
    used: int = 0


def known_scopes() -> tuple[str, ...]:
    """Return every scope that there is."""
    collections = sorted({kind.path.split("/")[1] for kind in kinds.TABLE if kind.array})
    return (ALL, READ_ALL, *(f"{name}:{verb}" for name in collections for verb in ("read", "write")))


def wanted_scope(method: str, path: str) -> str | None:
    """Return the scope that a method on a path needs, None where every key may do it."""
    if path in _NEED_NO_SCOPE:
        return None
    return f"{path.split('/')[1]}:{'read' if method == 'GET' else 'write'}"


def new_token(id: str) -> tuple[str, str]:
    """Make a bearer token for an API key, 192 random bits beside the key's id; return it and its digest."""
    token = f"{ids.unprefixed(id)}_{secrets.token_urlsafe(24)}"
    return token, _digest(token)


def unique_key(id: str, digest: str, account: str, owner: Owner, reach: Reach) -> UniqueKey:
    """Return the unique key of a token. Its attributes are all that authentication needs, so that one read will do."""
    attributes = {
        "digest": digest,
        "account": account,
        "owner_id": owner.id,
        "admin": owner.admin,
        "active": owner.active,
        "name": owner.name,
        "scopes": list(reach.scopes),
        "expires_at": reach.expires,
    }
    return UniqueKey(_KIND, ids.unprefixed(id), attributes)


def find(token: str) -> Holder | None:
    """Return the holder of a token, None when no key has it or the key has ended. One read. Raises aws.Unavailable."""
    found = table.look_up(_KIND, token[:_ID])
    if found is None or not hmac.compare_digest(found["digest"], _digest(token)):
        return None
    ends = found.get("expires_at")
    if ends is not None and ends <= clock.seconds():
        return None
    owner = Owner(found["owner_id"], found["admin"], _is_active(found), found.get("name", ""))
    reach = Reach(tuple(found.get("scopes", ())), ends)
    return Holder(found["account"], owner, f"{kinds.API_KEYS.prefix}_{token[:_ID]}", reach, found.get("used_at", 0))


def note_use(key: str, used: int) -> None:
    """Note that a key is used now, unless `used`, the second noted last, or this process's own note is within the hour.

    Raises aws.Unavailable.
    """
    now = clock.seconds()
    if now - max(used, _noted.get(key, 0)) < _NOTED_EVERY:
        return
    table.set_attributes(_KIND, ids.unprefixed(key), {"used_at": now})
    if len(_noted) >= _MAX_NOTED:
        _noted.clear()  # some are noted twice in an hour, then
    _noted[key] = now


def last_used(key: str) -> int | None:
    """Return the Unix second at which a key was last used, right within an hour; None for never.

    Raises aws.Unavailable.
    """
    found = table.look_up(_KIND, ids.unprefixed(key)) or {}
    return found.get("used_at")


def _is_active(found: dict[str, Any]) -> bool:
    if "active" in found:
        return bool(found["active"])
    if not kinds.BOT_USERS.has(found["owner_id"]):  # a record of the first edition, which switched off bots alone
        return True
    bot = accounts.read(found["account"], found["owner_id"])
    return bool(bot and accounts.is_on(bot))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
