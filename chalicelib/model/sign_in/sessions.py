"""Sessions of visitors who signed in at an identity provider. A session belongs to a route. DynamoDB removes it when it
expires.

Only the visitor's browser has the id of a session. The primary key of its record contains a digest of the id.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chalicelib.model.base.records import Stored
from chalicelib.storage import vault
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, ConditionFailed, Write
from chalicelib.storage.records.decoding import MalformedRecord

ID = "session"
PREFIX = "session#"  # the start of the partition keys of sessions
_EXISTS = Condition("attribute_exists(#id)")


@dataclass(frozen=True, kw_only=True)
class Session(Stored):
    """A session of a visitor on a route. Times are Unix seconds.

    `asked_teams` and `asked_organizations` were in the route's OAuth module when the provider was last asked about the
    user. Of these, the user belongs to `teams` and `organizations`. `tokens` are the provider's tokens, encrypted.
    """

    account: str
    edge: str
    route: str
    provider: str
    client_id: str
    cookie_prefix: str
    subject: str
    addresses: list[str] = field(default_factory=list)
    name: str = ""
    teams: list[str] = field(default_factory=list)
    organizations: list[str] = field(default_factory=list)
    asked_teams: list[str] = field(default_factory=list)
    asked_organizations: list[str] = field(default_factory=list)
    signed_in_at: int
    seen_at: int
    checked_at: int
    tokens: bytes = field(default=b"", repr=False)


def context(account: str) -> dict[str, str]:
    """Return the KMS encryption context of the provider's tokens."""
    return vault.context(account, "session")


def read(id: str) -> Session | None:
    """Return the session with an id, or None. One read. Raises aws.Unavailable."""
    record = dynamodb.get(scope_of(id), ID)
    return _decode(record) if record else None


def write(id: str, session: Session, *, until: int) -> None:
    """Store a session that expires at a Unix second. One write. Raises aws.Unavailable."""
    record = {"scope": scope_of(id), "id": ID, "body": session.to_record(), "revision": 1, "expires": until}
    dynamodb.do(Write.put(record))


def replace(id: str, session: Session, before: Session) -> bool:
    """Replace the state of a session after a check of its user at the identity provider.

    `before` is the session as it was read before the check. Return False if the session has ended, or if another
    process has completed a check of the user after that read. Raises aws.Unavailable.
    """
    unchanged = Condition("#body.#checked_at = :checked_at", {"checked_at": before.checked_at})
    # Keep the stored `seen_at`, because `record_seen` may have written a later time during the check.
    sets = {f"body.{name}": value for name, value in session.to_record().items() if name != "seen_at"}
    return _update(id, {**sets, "checking": None}, unchanged)


def delay_check(id: str, *, until: int) -> None:
    """Postpone the next check of a session's user to a Unix second. Call this if the provider did not answer.

    Raises aws.Unavailable.
    """
    _update(id, {"checking": until}, _EXISTS)


def record_seen(id: str, second: int) -> bool:
    """Store when a session was last used. Return False if it has ended. Raises aws.Unavailable."""
    return _update(id, {"body.seen_at": second}, _EXISTS)


def begin_check(id: str, now: int, *, until: int) -> bool:
    """Reserve the check of a session's user at the identity provider, until a Unix second.

    Return False if another process has reserved the check, if the check was postponed, or if the session has ended.
    Raises aws.Unavailable.
    """
    free = Condition("attribute_exists(#id) AND (attribute_not_exists(#checking) OR #checking <= :now)", {"now": now})
    return _update(id, {"checking": until}, free)


def end(id: str) -> None:
    """End a session. Raises aws.Unavailable."""
    dynamodb.do(Write.delete(scope_of(id), ID))


def scope_of(id: str) -> str:
    """Return the partition key of a session's record."""
    return f"{PREFIX}{hashlib.sha256(id.encode()).hexdigest()}"


def _update(id: str, sets: Mapping[str, Any], condition: Condition) -> bool:
    try:
        dynamodb.do(Write.update(scope_of(id), ID, condition, sets=sets))
    except ConditionFailed:
        return False
    return True


def _decode(record: Mapping[str, Any]) -> Session | None:
    try:
        return Session.of(record.get("body", {}))
    except MalformedRecord:
        return None
