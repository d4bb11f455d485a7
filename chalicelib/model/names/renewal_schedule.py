"""The schedule of automatic certificates. The issuer makes the attempts.

Each domain with a policy has one entry, whose id begins with the time of its next attempt. The reservation has a copy
of the entry among its hidden values, so that responses need no further call. A write that moves an entry requires that
it is still there: then the copy was the newest.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from chalicelib.model.base.kinds import EDGE
from chalicelib.model.names.reservations import ReservedDomain
from chalicelib.model.tls import renewals
from chalicelib.model.tls.renewals import Renewal
from chalicelib.storage.client.dynamodb import Condition, Write
from chalicelib.storage.records import decoding, items
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item

SCOPE = items.scope(EDGE, "/renewals")
RENEWAL = "renewal"  # the name of the copy
_EXISTS = Condition("attribute_exists(#id)")
_LAST = 9_999_999_999  # ids of entries begin with the seconds from their time to this one, so the oldest is the highest


@dataclass(frozen=True)
class RenewalEntry:
    """An entry of the schedule: a reservation, and the state of its certificate."""

    account: str
    reservation: str
    renewal: Renewal

    @property
    def id(self) -> str:
        return f"{_LAST - self.renewal.due_at:010}/{self.account}/{self.reservation}"

    def put(self, condition: Condition | None = None) -> Write:
        """Return the write that adds or replaces the entry."""
        return Write.put({"scope": SCOPE, "id": self.id, "body": asdict(self.renewal), "revision": 1}, condition)

    def remove(self) -> Write:
        """Return the write that removes the entry. It fails if the entry was moved."""
        return Write.delete(SCOPE, self.id, _EXISTS)

    def replace(self, renewal: Renewal) -> tuple[Write, ...]:
        """Return the writes that give the entry another state. They fail if the entry was moved."""
        after = RenewalEntry(self.account, self.reservation, renewal)
        return (after.put(_EXISTS),) if after.id == self.id else (self.remove(), after.put())


def read(reservation: Item) -> Renewal | None:
    """Return the state of a reservation's certificate, or None. Raises MalformedRecord."""
    copy = reservation.unseen.get(RENEWAL)
    return None if copy is None else decoding.decode(Renewal, copy)


def begin(account: str, id: str, now: int) -> tuple[dict[str, object], list[Write]]:
    """Return the hidden values of a new reservation with a policy, and the write of its entry."""
    entry = RenewalEntry(account, id, renewals.begin(now))
    return {RENEWAL: asdict(entry.renewal)}, [entry.put()]


def follow(before: Item, after: Item, now: int) -> tuple[Item, list[Write]]:
    """Return a changed reservation with the new state of its certificate, and the writes of its entry.

    A new policy and a removed certificate require an order. Any other change hastens an attempt that waits.
    Raises MalformedRecord.
    """
    old, new = ReservedDomain.of(before.body), ReservedDomain.of(after.body)
    if new.policy is None:
        return end(after)
    if old.policy != new.policy or (old.certificate_id and not new.certificate_id):
        return _changed(after, lambda renewal: renewals.order_again(renewal or renewals.begin(now), now))
    return _changed(after, lambda renewal: renewals.hasten(renewal or renewals.begin(now), now))


def end(reservation: Item) -> tuple[Item, list[Write]]:
    """Return a reservation without a certificate's state, and the write that removes its entry.

    A claimed entry stays: the issuer removes it after the rest of its attempt.
    """
    try:
        renewal = read(reservation)
    except MalformedRecord:  # the issuer removes an entry without a reservation
        renewal = None
    if renewal is None or renewal.is_claimed:
        return reservation, []
    unseen = {name: value for name, value in reservation.unseen.items() if name != RENEWAL}
    return replace(reservation, unseen=unseen), [RenewalEntry(reservation.account, reservation.id, renewal).remove()]


def _changed(item: Item, change: Callable[[Renewal | None], Renewal]) -> tuple[Item, list[Write]]:
    before = read(item)
    after = change(before)
    if after == before:
        return item, []
    own = RenewalEntry(item.account, item.id, before or after)
    changed = replace(item, unseen={**item.unseen, RENEWAL: asdict(after)})
    return changed, [*own.replace(after)] if before else [own.put()]
