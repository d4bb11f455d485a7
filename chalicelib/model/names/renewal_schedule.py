"""The schedule of automatic certificates. The issuer makes the attempts to obtain them.

Each reserved domain with a policy for certificates has one entry. The entry's id encodes the time of the next
attempt. An issuer claims an entry for the time of its attempt, so that no other issuer makes the attempt too.

The reservation stores a copy of the entry in an attribute that responses do not show (`unseen`). So a response with the
certificate's state needs no read of the schedule. The copy contains the time of the next attempt, and so the entry's
id. A write that moves an entry fails if no entry has this id, because then the copy is out of date.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from chalicelib import ids
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import EDGE
from chalicelib.model.names.reservations import ReservedDomain
from chalicelib.model.tls import renewals
from chalicelib.model.tls.renewals import Renewal
from chalicelib.storage.client import dynamodb, queries
from chalicelib.storage.client.dynamodb import Condition, TransactionFailed, Write
from chalicelib.storage.records import decoding, items, table
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item

SCOPE = items.scope(EDGE, "/renewals")
RENEWAL = "renewal"  # the name in `unseen` under which a reservation stores the copy of its entry
_EXISTS = Condition("attribute_exists(#id)")
# A distant Unix second. The ids of entries start with the number of seconds from an entry's time to this second, so the
# entry that is due first sorts last.
_LAST = 9_999_999_999


@dataclass(frozen=True)
class RenewalEntry:
    """A schedule entry: a reservation, and the state of its automatic certificate."""

    account: str
    reservation: str
    renewal: Renewal

    @property
    def id(self) -> str:
        return f"{_LAST - self.renewal.due_at:010}/{self.account}/{self.reservation}"

    @property
    def scope(self) -> str:
        """Return the partition key of the reservation that this entry is about."""
        return items.scope(self.account, kinds.RESERVED_DOMAINS.path)

    def put(self, condition: Condition | None = None) -> Write:
        """Return the write that adds this entry to the schedule, or replaces it there."""
        return Write.put({"scope": SCOPE, "id": self.id, "body": asdict(self.renewal), "revision": 1}, condition)

    def remove(self) -> Write:
        """Return the write that removes this entry from the schedule.

        The write fails if another process has moved the entry to another time.
        """
        return Write.delete(SCOPE, self.id, _EXISTS)

    def replace(self, renewal: Renewal) -> tuple[Write, ...]:
        """Return the writes that replace the state in this entry.

        If the time of the next attempt changes, the writes move the entry to another id. They fail if another process
        has moved the entry already.
        """
        after = RenewalEntry(self.account, self.reservation, renewal)
        return (after.put(_EXISTS),) if after.id == self.id else (self.remove(), after.put())


@dataclass(frozen=True)
class DueRenewal:
    """An entry that is due. `item` is its reservation, None if the reservation was deleted."""

    entry: RenewalEntry
    item: Item | None

    @property
    def stored(self) -> ReservedDomain | None:
        """Return the decoded reservation if it has a policy, otherwise None. Raises MalformedRecord."""
        stored = ReservedDomain.of(self.item.body) if self.item else None
        return stored if stored and stored.policy else None


def find_due(now: int, limit: int) -> list[DueRenewal]:
    """Return at most `limit` entries of the schedule that are due, oldest first.

    Malformed entries are removed. Raises aws.Unavailable.
    """
    pages = queries.read_pages(
        {"scope": SCOPE, "now": f"{_LAST - now:010}"},
        limit=limit,
        KeyConditionExpression="#scope = :scope AND #id >= :now",
    )
    entries = {entry: record["id"] for record in next(pages)[:limit] if (entry := _parse(record))}
    records = table.read_records((entry.scope, entry.reservation) for entry in entries)
    live = {(item.account, item.id): item for record in records.values() if (item := items.decode_live(record))}
    return [DueRenewal(entry, live.get((entry.account, entry.reservation))) for entry in entries]


def list_entries() -> Iterator[RenewalEntry]:
    """Yield all entries of the schedule. Malformed entries are removed. Raises aws.Unavailable."""
    for item in table.read_all(SCOPE):
        if entry := _parse({"scope": item.scope, "id": item.id, "body": item.body}):
            yield entry


def order_now(account: str, id: str, now: int) -> RenewalEntry | None:
    """Make the next order for a reservation due now, but not within a minute after the previous attempt.

    Return the reservation's entry, or None if it has no policy, or an attempt is running. Raises aws.Unavailable.
    """
    due = find(account, id)
    if due is None or due.entry.renewal.is_claimed:
        return None
    after = _write(due, renewals.order_again(due.entry.renewal, now))
    return after.entry if after else None


def find(account: str, id: str) -> DueRenewal | None:
    """Return the entry of a reservation in the schedule. Return None if the reservation has no policy.

    Raises MalformedRecord, aws.Unavailable.
    """
    item = table.find(items.scope(account, kinds.RESERVED_DOMAINS.path), id)
    renewal = read(item) if item and has_policy(item) else None
    return DueRenewal(RenewalEntry(account, id, renewal), item) if renewal else None


def claim(due: DueRenewal, now: int, until: int) -> DueRenewal | None:
    """Claim an entry until a Unix second. Return the claimed entry, or None if another issuer was first.

    Raises aws.Unavailable.
    """
    renewal = replace(due.entry.renewal, due_at=until, is_claimed=True, tried_at=now)
    return _write(due, renewal)


def postpone(due: DueRenewal, renewal: Renewal) -> bool:
    """Store a new state of an unclaimed entry. Return False if another process has moved the entry.

    Raises aws.Unavailable.
    """
    return _write(due, renewal) is not None


def conclude(due: DueRenewal, renewal: Renewal, now: int, *, keeps: bool = False) -> bool:
    """End an attempt that obtained no certificate: store its result, and end the claim.

    If the reservation has no policy any more, the entry is removed, unless `keeps` is True. Set `keeps` if the CA still
    has an unfinished order, which the next attempt must end. Other changes of the reservation during the attempt are
    applied to the entry. Return False, and write nothing, if another issuer has claimed the entry. Raises
    aws.Unavailable.
    """
    current = table.find(due.entry.scope, due.entry.reservation)
    released = replace(renewal, is_claimed=False)
    if current is None or not has_policy(current):
        return _write(DueRenewal(due.entry, current), released) is not None if keeps else _remove(due, current)
    if due.item is None or current.revision != due.item.revision:
        released = _follow(due.item or current, current, released, now)
    return _write(DueRenewal(due.entry, current), released) is not None


def has_policy(reservation: Item) -> bool:
    """Return whether a reservation is well-formed and has a policy for automatic certificates."""
    try:
        return not reservation.malformed and ReservedDomain.of(reservation.body).policy is not None
    except MalformedRecord:
        return False


def copy(reservation: Item, renewal: Renewal | None) -> Write:
    """Return the write that copies a certificate's state into its reservation. With None, remove the copy."""
    sets = {f"unseen.{RENEWAL}": asdict(renewal) if renewal else None}
    return Write.update(*reservation.key, Condition("attribute_exists(#unseen)"), sets=sets)


def read(reservation: Item) -> Renewal | None:
    """Return the state of a reservation's certificate, or None. Raises MalformedRecord."""
    copy = reservation.unseen.get(RENEWAL)
    return None if copy is None else decoding.decode(Renewal, copy)


def read_valid(reservation: Item) -> Renewal | None:
    """Return the state of a reservation's certificate. Return None if there is none or it is malformed."""
    try:
        return read(reservation)
    except MalformedRecord:  # the issuer will remove the malformed entry from the schedule
        return None


def begin(account: str, id: str) -> tuple[dict[str, object], list[Write]]:
    """Return `unseen` of a new reservation with a policy, and the write that adds its schedule entry."""
    entry = RenewalEntry(account, id, renewals.begin(int(ids.created_at(id).timestamp())))
    return {RENEWAL: asdict(entry.renewal)}, [entry.put()]


def follow(before: Item, after: Item, now: int) -> tuple[Item, list[Write]]:
    """Return a changed reservation with its certificate's new state, and the writes for the schedule.

    A new policy, or the removal of the certificate, makes an order due. After any other change, an order that has
    failed is tried again as soon as possible. Raises MalformedRecord.
    """
    if ReservedDomain.of(after.body).policy is None:
        return end(after)
    return _change(after, lambda renewal: _follow(before, after, renewal or renewals.begin(now), now))


def _follow(before: Item, after: Item, renewal: Renewal, now: int) -> Renewal:
    old, new = ReservedDomain.of(before.body), ReservedDomain.of(after.body)
    if old.issued_certificate_id and not new.issued_certificate_id and new.progress and not new.progress.holds:
        return renewals.lose(renewal, now)
    if old.policy != new.policy or (old.certificate_id and not new.certificate_id):
        return renewals.order_again(renewal, now)
    return renewals.hasten(renewal, now)


def lose(reservation: Item, now: int) -> tuple[Item, list[Write]]:
    """Return a reservation that lost its domain, and the writes for the schedule.

    A new proof of the domain will require a new certificate.
    """
    if read_valid(reservation) is None or not has_policy(reservation):
        return reservation, []
    return _change(reservation, lambda renewal: renewals.lose(renewal or renewals.begin(now), now))


def end(reservation: Item) -> tuple[Item, list[Write]]:
    """Return a reservation without a certificate's state, and the write that removes its entry.

    A claimed entry stays. The issuer removes it at the end of its attempt.
    """
    renewal = read_valid(reservation)
    if renewal is None or renewal.is_claimed:
        return reservation, []
    unseen = {name: value for name, value in reservation.unseen.items() if name != RENEWAL}
    return replace(reservation, unseen=unseen), [RenewalEntry(reservation.account, reservation.id, renewal).remove()]


def _change(item: Item, change: Callable[[Renewal | None], Renewal]) -> tuple[Item, list[Write]]:
    before = read(item)
    after = change(before)
    if after == before:
        return item, []
    entry = RenewalEntry(item.account, item.id, before or after)
    changed = replace(item, unseen={**item.unseen, RENEWAL: asdict(after)})
    return changed, [*entry.replace(after)] if before else [entry.put()]


def _write(due: DueRenewal, renewal: Renewal) -> DueRenewal | None:
    """Replace the state in an entry of the schedule, and return the new entry.

    Return None if another process has moved the entry.
    """
    entry_writes = [*due.entry.replace(renewal), *([copy(due.item, renewal)] if due.item else [])]
    if not _are_done(entry_writes):
        return None
    return DueRenewal(RenewalEntry(due.entry.account, due.entry.reservation, renewal), due.item)


def _remove(due: DueRenewal, reservation: Item | None) -> bool:
    return _are_done([due.entry.remove(), *([copy(reservation, None)] if reservation else [])])


def _are_done(entry_writes: Sequence[Write]) -> bool:
    try:
        dynamodb.transact(entry_writes)
    except TransactionFailed:
        return False
    return True


def _parse(record: Mapping[str, Any]) -> RenewalEntry | None:
    """Return the entry that a record of the schedule stores.

    Remove a malformed record and return None, so that the record is not read again.
    """
    _, account, id = (*record["id"].split("/"), "", "")[:3]
    try:
        entry = RenewalEntry(account, id, decoding.decode(Renewal, record.get("body", {})))
    except MalformedRecord as malformed:
        decoding.report(record["scope"], record["id"], malformed)
        entry = RenewalEntry("", "", Renewal(0))
    if kinds.ACCOUNTS.has(account) and kinds.RESERVED_DOMAINS.has(id) and entry.id == record["id"]:
        return entry
    dynamodb.do(Write.delete(SCOPE, record["id"]))
    return None
