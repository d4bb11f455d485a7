"""The usage of federated credentials: exchanges, counted from audit events, and recorded refusals."""

from dataclasses import dataclass

from chalicelib import clock
from chalicelib.model.accounts import federated_credentials
from chalicelib.model.audit import reading, trail
from chalicelib.model.audit.trail import Event
from chalicelib.model.base import records
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, ConditionFailed, Write

MAX_COUNTED = 100  # the most exchanges, and the most refusals within an hour, that a credential's usage shows

_ISSUED = ("api_key.create", "ssh_user_certificate.create")  # actions of the audit events that exchanges write
_REFUSALS = "refused"  # the id of the record with a credential's refusals
_MINUTE, _HOUR = 60, 60 * 60

# The Unix second at which this process last recorded a refusal, by the credential's id.
_recorded: dict[str, int] = {}
_MAX_RECORDED = 10_000


@dataclass(frozen=True)
class Refusals:
    """The recorded refusals of a credential. `at` is the Unix second of the latest refusal, `reason` its reason."""

    at: int | None = None
    reason: str = ""
    last_hour: int = 0


def record_refusal(credential: str, reason: str) -> None:
    """Record that a signed token was refused, at most once a minute. Raises aws.Unavailable.

    The record has one attribute for each minute of an hour, so that it stays small.
    """
    now = clock.seconds()
    if now < _recorded.get(credential, 0) + _MINUTE:
        return
    if len(_recorded) >= _MAX_RECORDED:
        _recorded.clear()
    _recorded[credential] = now
    due = Condition("attribute_not_exists(#at) OR #at <= :past", {"past": now - _MINUTE})
    expires = trail.find_expiry(clock.at(now))
    sets = {"at": now, "reason": reason, f"minute_{now // _MINUTE % 60}": now, "expires": expires}
    try:
        dynamodb.do(Write.update(federated_credentials.key_of(credential).scope, _REFUSALS, due, sets=sets))
    except ConditionFailed:
        return


def read_refusals(credential: str) -> Refusals:
    """Return the recorded refusals of a credential. One read. Raises aws.Unavailable."""
    record = dynamodb.get(federated_credentials.key_of(credential).scope, _REFUSALS)
    if record is None:
        return Refusals()
    past = clock.seconds() - _HOUR
    recent = [value for name, value in record.items() if name.startswith("minute_") and value > past]
    return Refusals(record["at"], record["reason"], min(len(recent), MAX_COUNTED))


def list_exchanges(account: str, credential: str) -> list[str]:
    """Return the times of the newest exchanges with a credential, newest first. Raises aws.Unavailable."""
    event_items, _ = reading.read_page_of_actor(account, credential, before=None, count=MAX_COUNTED) or ([], False)
    return [event.created_at for _, event in records.decode_each(Event, event_items) if event.action in _ISSUED]
