"""API keys: their tokens, scopes, expiry and use. A token contains the id of its key; only its digest is stored."""

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from chalicelib import clock, ids
from chalicelib.model.accounts import accounts, scopes
from chalicelib.model.accounts.accounts import Owner
from chalicelib.model.base import kinds
from chalicelib.model.base.records import Owned, Stored
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, ConditionFailed, Write
from chalicelib.storage.records import decoding, direct_writes, unique_keys
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.unique_keys import UniqueKey

_KIND = "token"
_ID = 27  # characters at the start of a token: the id of its key, without the prefix
_HOUR = 60 * 60  # seconds
_MAX_RECORDED = 10_000
MAX_DENIED = 100  # counted requests of a key per hour, so that a client cannot cause unlimited writes

# The Unix second at which this process last recorded the use of a key, by its id. The time that a request brings can
# come from the cache of the gateway's authorizer and be older.
_recorded: dict[str, int] = {}

# The Unix second until which no further denied requests of a key are counted, by its id.
_denied_enough: dict[str, int] = {}


@dataclass(frozen=True, kw_only=True)
class ApiKey(Owned):
    """The stored form of an API key, without its token. A record has an expiry and scopes only if they are set."""

    token: None = None
    expires_at: str | None = None
    scopes: list[str] = field(default_factory=list)

    AUDITED = ("scopes", "expires_at", "owner_id", "created_by")
    IS_SHOWN_ONCE = True  # the token

    def audited_fields(self) -> dict[str, Any]:
        return {**super().audited_fields(), "scopes": self.scopes or [scopes.ALL]}

    def to_record(self) -> dict[str, Any]:
        optional = ("expires_at", "scopes")
        return {name: value for name, value in super().to_record().items() if value or name not in optional}


@dataclass(frozen=True, kw_only=True)
class _Token(Stored):
    """The attributes of the unique key of a token. Records of earlier versions lack some."""

    digest: str
    account: str
    owner_id: str
    admin: bool
    active: bool | None = None
    name: str = ""
    scopes: list[str] = field(default_factory=list)
    expires_at: int | None = None
    used_at: int = 0


@dataclass(frozen=True)
class KeyLimits:
    """The scopes of an API key and its expiry. No scopes allow everything; the expiry is a Unix second or None."""

    scopes: tuple[str, ...] = ()
    expires: int | None = None

    def covers(self, scope: str) -> bool:
        """Return whether the key can do all that a scope allows."""
        return not self.scopes or scopes.covers(self.scopes, scope)


UNLIMITED = KeyLimits()


@dataclass(frozen=True)
class VerifiedKey:
    """The API key of a valid token. `key` is its id, `last_used` a Unix second or 0."""

    account: str
    owner: Owner
    key: str
    limits: KeyLimits = UNLIMITED
    last_used: int = 0


@dataclass(frozen=True)
class KeyUsage:
    """The last use of a key and its denied requests. `last_used` is a Unix second, or None for never."""

    last_used: int | None
    denied_last_hour: int


def key_of(id: str) -> UniqueKey:
    """Return the unique key of the token of an API key, without attributes."""
    return UniqueKey(_KIND, ids.unprefixed(id))


def new_token(id: str) -> tuple[str, str]:
    """Return a new bearer token for an API key, and its digest. It has 192 random bits."""
    token = f"{ids.unprefixed(id)}_{secrets.token_urlsafe(24)}"
    return token, _hash_token(token)


def unique_key(id: str, digest: str, account: str, owner: Owner, limits: KeyLimits) -> UniqueKey:
    """Return the unique key of a token, with all attributes that authentication requires.

    So authentication takes one read. The copied fields of the owner can be outdated when the key is stored:
    `owners.check_new_key` corrects them.
    """
    attributes = {
        "digest": digest,
        "account": account,
        "owner_id": owner.id,
        "admin": owner.admin,
        "active": owner.active,
        "name": owner.name,
        "scopes": list(limits.scopes),
        "expires_at": limits.expires,
    }
    return UniqueKey(_KIND, ids.unprefixed(id), attributes)


def find(token: str) -> VerifiedKey | None:
    """Return the API key of a valid token, or None.

    An expired or malformed key is not valid. One read. Raises aws.Unavailable.
    """
    record = dynamodb.get(f"{_KIND}#{token[:_ID]}", unique_keys.ID)
    if record is None:
        return None
    try:
        found = decoding.decode(_Token, record.get("body", {}))
    except MalformedRecord as malformed:
        decoding.report(f"{_KIND}#{token[:_ID]}", unique_keys.ID, malformed)
        return None
    if not hmac.compare_digest(found.digest, _hash_token(token)):
        return None
    if found.expires_at is not None and found.expires_at <= clock.seconds():
        return None
    owner = Owner(found.owner_id, found.admin, _is_active(found), found.name)
    limits = KeyLimits(tuple(found.scopes), found.expires_at)
    return VerifiedKey(found.account, owner, f"{kinds.API_KEYS.prefix}_{token[:_ID]}", limits, found.used_at)


def record_use(key: str, used: int) -> None:
    """Store that a key is used now, at most once an hour.

    `used` is the last recorded Unix second that the request knows of. Raises aws.Unavailable.
    """
    now = int(time.time())
    if now - max(used, _recorded.get(key, 0)) < _HOUR:
        return
    direct_writes.set_attributes(_KIND, ids.unprefixed(key), {"used_at": now})
    _remember(_recorded, key, now)


def record_denied(key: str) -> None:
    """Count a denied request of a key, up to MAX_DENIED per hour. Raises aws.Unavailable.

    Each is a member of a set, so that concurrent requests do not overwrite each other.
    """
    now = clock.seconds()
    if now < _denied_enough.get(key, 0):
        return
    member = f"{now}.{secrets.token_hex(4)}"
    room = Condition(
        "attribute_exists(#id) AND (attribute_not_exists(#denied) OR size(#denied) < :most)", {"most": MAX_DENIED}
    )
    write = Write.update(_scope(key), unique_keys.ID, room, adds={"denied": {member}})
    try:
        dynamodb.do(write)
    except ConditionFailed:
        with suppress(ConditionFailed):  # the key was deleted, or other requests filled the set
            if _remove_old_denied(key, now):
                dynamodb.do(write)


def read_usage(key: str) -> KeyUsage:
    """Return the last use and denied requests of a key. The last use is accurate to an hour. Raises aws.Unavailable."""
    found = dynamodb.get(_scope(key), unique_keys.ID) or {"body": {}}
    return KeyUsage(found["body"].get("used_at"), len(_select_denied(found, clock.seconds() - _HOUR)))


def _remove_old_denied(key: str, now: int) -> bool:
    """Remove denied requests older than an hour; return whether any were removed.

    Otherwise remember when the oldest will be an hour old. Raises ConditionFailed if the key was deleted,
    aws.Unavailable.
    """
    found = dynamodb.get(_scope(key), unique_keys.ID) or {}
    recent = _select_denied(found, now - _HOUR)
    if old := {*found.get("denied", ())} - recent:
        there = Condition("attribute_exists(#id)")
        dynamodb.do(Write.update(_scope(key), unique_keys.ID, there, removes={"denied": old}))
        return True
    if recent:
        _remember(_denied_enough, key, int(min(recent).partition(".")[0]) + _HOUR)
    return False


def _select_denied(record: Mapping[str, Any], second: int) -> set[str]:
    """Return the denied requests after a Unix second. Each begins with its second."""
    return {member for member in record.get("denied", ()) if int(member.partition(".")[0]) > second}


def _remember(seconds: dict[str, int], key: str, second: int) -> None:
    if len(seconds) >= _MAX_RECORDED:
        seconds.clear()  # then some keys are written twice within an hour
    seconds[key] = second


def _scope(key: str) -> str:
    return f"{_KIND}#{ids.unprefixed(key)}"


def _is_active(found: _Token) -> bool:
    if found.active is not None:
        return found.active
    if not kinds.BOT_USERS.has(found.owner_id):  # a record of the first version, where only bots could be inactive
        return True
    bot = accounts.read(found.account, found.owner_id)
    return bool(bot and accounts.is_item_active(bot))


def _hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
