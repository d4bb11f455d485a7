"""API keys: their tokens, scopes, expiry and use.

A token contains the id of its API key. The token record stores the digest of the token, and copies of all fields that
authentication requires. It is stored as a unique key: a record that is read by a value, here by the id in the token.
"""

import hashlib
import hmac
import secrets
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chalicelib import clock, ids
from chalicelib.model.accounts import accounts, scopes
from chalicelib.model.accounts.accounts import Owner
from chalicelib.model.base import kinds, switches
from chalicelib.model.base.records import Owned, Stored
from chalicelib.storage.client import dynamodb
from chalicelib.storage.records import decoding, direct_writes, item_keys, unique_keys
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.unique_keys import UniqueKey

KIND = "token"  # `UniqueKey.kind` of token records
_ID_LENGTH = 27  # characters of the API key's id in a token; the id's prefix is omitted
_HOUR = 60 * 60
_MAX_RECORDED = 10_000
_DAY = 24 * _HOUR
_PREFIX = "te_"  # the start of a token; tokens of earlier versions have no prefix
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CHECKSUM_LENGTH = 6

# The Unix second at which this process last recorded the use of a key, by the key's id. The context of a request can
# contain an older time, if API Gateway has cached the result of its authorizer.
_recorded: dict[str, int] = {}


@dataclass(frozen=True, kw_only=True)
class ApiKey(Owned):
    """The stored form of an API key, without its token. A key without an expiry or scopes lacks these fields."""

    token: None = None
    expires_at: str | None = None
    scopes: list[str] = field(default_factory=list)
    allowed_networks: list[str] = field(default_factory=list)
    limits: dict[str, int] = field(default_factory=dict)

    AUDITED = ("scopes", "expires_at", "owner_id", "created_by", "allowed_networks", "limits")
    IS_SHOWN_ONCE = True  # only the response that creates a key shows its token

    def audited_fields(self) -> dict[str, Any]:
        return {
            **super().audited_fields(),
            "scopes": self.scopes or [scopes.ALL],
            "allowed_networks": self.allowed_networks or None,
            "limits": [f"{name}: {value}" for name, value in self.limits.items()] or None,
        }

    @property
    def end(self) -> int | None:
        """Return the Unix second at which the key expires, or None if it never expires. Raises MalformedRecord."""
        return decoding.second("ApiKey", "expires_at", self.expires_at) if self.expires_at else None

    def to_record(self) -> dict[str, Any]:
        optional = ("expires_at", "scopes", "allowed_networks", "limits")
        return {name: value for name, value in super().to_record().items() if value or name not in optional}


@dataclass(frozen=True, kw_only=True)
class _Token(Stored):
    """The attributes of a token record. Records that versions 1.x and 2.0.0 of the service wrote lack some of them."""

    digest: str
    account: str
    owner_id: str
    admin: bool
    active: bool | None = None
    name: str = ""
    scopes: list[str] = field(default_factory=list)
    expires_at: int | None = None
    used_at: int = 0
    networks: list[str] = field(default_factory=list)
    limits: dict[str, int] = field(default_factory=dict)
    account_networks: list[str] | None = None
    account_limits: dict[str, int] | None = None
    max_idle_days: int | None = None
    ignores_rules: bool = False
    federated: str = ""
    disabled: bool = False


@dataclass(frozen=True)
class KeyLimits:
    """The limits of an API key. A key without scopes may do everything. `expires` is a Unix second or None.

    Requests must come from an address in `networks` and in `account_networks`. An empty list allows all addresses.
    `networks` and `rates` belong to the key and never change. `account_rates` are the limits that the operator has set
    for the account. The names of limits are those in `rates.py`.
    """

    scopes: tuple[str, ...] = ()
    expires: int | None = None
    networks: tuple[str, ...] = ()
    account_networks: tuple[str, ...] = ()
    rates: Mapping[str, int] = field(default_factory=dict)
    account_rates: Mapping[str, int] = field(default_factory=dict)

    def covers(self, scope: str) -> bool:
        """Return whether the key may do everything that a scope allows."""
        return not self.scopes or scopes.covers(self.scopes, scope)


UNLIMITED = KeyLimits()


@dataclass(frozen=True)
class VerifiedKey:
    """The API key to which a valid token belongs. `key` is the id of the API key, `last_used` a Unix second or 0.

    `federated` is the key's chain (see `trees.py`): ids of federated credentials, separated by spaces. `is_disabled` is
    true if one of these credentials was disabled.
    """

    account: str
    owner: Owner
    key: str
    limits: KeyLimits = UNLIMITED
    last_used: int = 0
    federated: str = ""
    is_disabled: bool = False


def key_of(id: str) -> UniqueKey:
    """Return the unique key for the token record of an API key, without attributes."""
    return UniqueKey(KIND, ids.strip_prefix(id))


def build_locked_key(id: str) -> UniqueKey:
    """Return the unique key for a token record with an empty digest, which no token matches."""
    return UniqueKey(KIND, ids.strip_prefix(id), {"digest": ""})


def new_token(id: str) -> tuple[str, str]:
    """Return a new bearer token for an API key, and the token's digest.

    The token has 192 random bits. From record format 4 on, it also has a checksum.
    """
    token = f"{ids.strip_prefix(id)}_{secrets.token_urlsafe(24)}"
    if item_keys.is_latest_format():
        token = f"{_PREFIX}{token}{_checksum(f'{_PREFIX}{token}')}"
    return token, _hash_token(token)


def expires(end: int | None) -> int | None:
    """Return the Unix second at which the records of an API key expire: a day after the expiry of the key.

    Return None if the key never expires.
    """
    return None if end is None else end + _DAY


def unique_key(
    id: str, digest: str, account: str, owner: Owner, limits: KeyLimits, rules: Mapping[str, Any]
) -> UniqueKey:
    """Return the unique key for a token record, with all attributes that authentication requires.

    So authentication requires only one read. `rules` are the attributes that are copied from the rules of the account.
    If the owner changes before the API key is stored, `switching.check_new_key` corrects the attributes.
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
        **({"networks": list(limits.networks)} if limits.networks else {}),
        **({"limits": dict(limits.rates)} if limits.rates else {}),
        **{name: value for name, value in rules.items() if value},
    }
    return UniqueKey(KIND, ids.strip_prefix(id), attributes, expires=expires(limits.expires))


def find(token: str) -> VerifiedKey | None:
    """Return the API key of a valid token. Return None if the token is invalid or expired, or its record malformed. One
    read, or no read if the checksum is wrong. Raises aws.Unavailable.
    """
    key = _key_in(token)
    record = dynamodb.get(f"{KIND}#{key}", unique_keys.ID) if key else None
    if record is None:
        return None
    try:
        stored = decoding.decode(_Token, record.get("body", {}))
    except MalformedRecord as malformed:
        decoding.report(f"{KIND}#{key}", unique_keys.ID, malformed)
        return None
    if not hmac.compare_digest(stored.digest, _hash_token(token)):
        return None
    if stored.expires_at is not None and stored.expires_at <= clock.seconds():
        return None
    if stored.max_idle_days is not None and _is_idle(stored, key):
        return None
    owner, limits = Owner(stored.owner_id, stored.admin, _is_active(stored), stored.name), _limits(stored)
    id, root = f"{kinds.API_KEYS.prefix}_{key}", stored.federated
    return VerifiedKey(stored.account, owner, id, limits, stored.used_at, root, stored.disabled)


def record_use(key: str, used: int) -> None:
    """Record that a key is used now, at most once an hour.

    `used` is the last use that authentication has read, a Unix second. This value can be outdated. Raises
    aws.Unavailable.
    """
    now = int(time.time())
    if now - max(used, _recorded.get(key, 0)) < _HOUR:
        return
    direct_writes.set_attributes(KIND, ids.strip_prefix(key), {"used_at": now})
    remember(_recorded, key, now)


def remember(seconds: dict[str, int], key: str, second: int) -> None:
    """Set `seconds[key]` to a Unix second. Clear the dictionary first if it has _MAX_RECORDED entries."""
    if len(seconds) >= _MAX_RECORDED:
        seconds.clear()  # after this, the use of an API key can be recorded a second time within an hour
    seconds[key] = second


def _key_in(token: str) -> str:
    """Return the id in a token, without its prefix. Return "" if the checksum is wrong."""
    if not token.startswith(_PREFIX):
        return token[:_ID_LENGTH]
    is_intact = _checksum(token[:-_CHECKSUM_LENGTH]) == token[-_CHECKSUM_LENGTH:]
    return token.removeprefix(_PREFIX)[:_ID_LENGTH] if is_intact else ""


def _checksum(text: str) -> str:
    """Return the CRC-32 of a text in base62, most significant digit first."""
    number, digits = zlib.crc32(text.encode()), ""
    for _ in range(_CHECKSUM_LENGTH):
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits


def _limits(stored: _Token) -> KeyLimits:
    """Return the limits in a token record. If the key ignores the account's rules, omit the account's networks."""
    bounds = () if stored.ignores_rules else stored.account_networks or ()
    rates = stored.limits, stored.account_limits or {}
    return KeyLimits(tuple(stored.scopes), stored.expires_at, tuple(stored.networks), tuple(bounds), *rates)


def _is_idle(stored: _Token, key: str) -> bool:
    """Return whether a key has not been used for longer than the account permits."""
    used = max(stored.used_at, int(ids.created_at(key).timestamp()))
    return clock.seconds() - used > (stored.max_idle_days or 0) * _DAY


def _is_active(stored: _Token) -> bool:
    if stored.active is not None:
        return stored.active
    # The token record is from version 1.x, in which only bots could be inactive.
    if not kinds.BOT_USERS.has(stored.owner_id):
        return True
    bot = accounts.read(stored.account, stored.owner_id)
    return bool(bot and switches.is_on(bot))


def _hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
