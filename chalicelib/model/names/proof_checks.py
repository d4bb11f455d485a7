"""The schedule of the DNS checks that prove reserved domains, and their results. The live edge makes the checks.

The schedule is one partition, sorted by time, so one query returns the checks that are due. The transaction that
changes a reservation also moves the reservation's entry in the schedule.
"""

from dataclasses import asdict, dataclass

from chalicelib import clock
from chalicelib.model.audit import trail
from chalicelib.model.base import kinds, records
from chalicelib.model.base.kinds import EDGE
from chalicelib.model.changes import Change
from chalicelib.model.names import issued_certificates, renewal_schedule
from chalicelib.model.names.proofs import Proof, ProofChange
from chalicelib.model.names.reservations import ReservedDomain, list_proved, set_proof
from chalicelib.storage.client import dynamodb, queries
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import decoding, items, table, writes
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import Taken

_DUE = items.scope(EDGE, "/looks")
# A distant Unix second. The ids of entries begin with the number of seconds from the check's time to this second, so
# the entry that is due first sorts last.
_LAST = 9_999_999_999
_AT_ONCE = 100  # the most records that one call to the table reads


@dataclass(frozen=True)
class DueCheck:
    """A reserved domain with a proof that must be checked now. `revision` is the revision of the reservation."""

    account: str
    id: str
    domain: str
    proof: Proof
    revision: int


def find_due(now: int, limit: int) -> list[DueCheck]:
    """Return at most `limit` reservations that are due for a check, oldest first. Raises aws.Unavailable."""
    pages = queries.read_pages(
        {"scope": _DUE, "now": f"{_LAST - now:010}"},
        limit=limit,
        KeyConditionExpression="#scope = :scope AND #id >= :now",
    )
    entries = [entry["id"] for entry in next(pages)][:limit]
    valid = {id: key for id in entries if (key := _parse_entry(id))}
    keys, due_checks = [*valid.values()], list[DueCheck]()
    for start in range(0, len(keys), _AT_ONCE):
        read = dynamodb.get_each(*keys[start : start + _AT_ONCE])
        due_checks += [check for record in read if record and (check := _decode_live(Item.from_record(record)))]
    live = {(_scope(check.account), check.id) for check in due_checks}
    for id in entries:
        # Remove invalid entries: a query returns the oldest entries first, so each query would return them again.
        if valid.get(id) not in live:
            dynamodb.do(Write.delete(_DUE, id))
    # Another edge host can have claimed a check since the query. A claim postpones `next_at`.
    return [check for check in due_checks if check.proof.next_at <= now]


def claim(check: DueCheck, *, until: int) -> DueCheck | None:
    """Postpone a check to a Unix second, so that no other edge host makes the same check. Return the postponed check.

    Return None if another host was faster. Raises aws.Unavailable.
    """
    before = _read_same(check)
    if before is None:
        return None
    after = set_proof(before, Proof(**{**asdict(check.proof), "next_at": until}))
    try:
        writes.commit([*writes.rewrite(before, after), *reschedule(before, after)])
    except writes.Overtaken:
        return None
    return _decode(after)


def find_proved(domain: str) -> DueCheck | None:
    """Return the reservation that has proved a domain, in any account, or None. Raises aws.Unavailable."""
    owner = table.look_up("domain", domain)
    item = table.find(_scope(owner["account"]), owner["id"]) if owner else None
    return _decode_live(item) if item else None


def record(check: DueCheck, result: ProofChange, loser: tuple[DueCheck, ProofChange] | None = None) -> bool:
    """Store the result of a check.

    `loser` is set if another account loses the domain: the check of that account's reservation, and the change of its
    proof.

    Return False, and write nothing, if one of the two reservations has changed, or if another reservation has proved
    the domain. Raises aws.Unavailable.
    """
    change = Change(trail.EDGE)
    for changed, outcome in [(check, result), *([loser] if loser else [])]:
        before = _read_same(changed)
        if before is None:
            return False
        after, other_writes = _update_certificate(
            before, set_proof(before, outcome.proof), outcome, is_lost=changed is not check
        )
        change = change.add(*reschedule(before, after), *other_writes)
        if outcome.event:
            change = change.rewrite(before, lambda _, after=after: after, verb=outcome.event)  # type: ignore[misc]
        else:
            change = change.add(*writes.rewrite(before, after))
    try:
        change.commit()
    except (writes.Overtaken, Taken):
        return False
    return True


def _update_certificate(before: Item, after: Item, outcome: ProofChange, *, is_lost: bool) -> tuple[Item, list[Write]]:
    """Return a reservation after a check, and the writes for its automatic certificate.

    If the account lost the domain, the domain's automatic certificate is withdrawn. If the account has just proved the
    domain, the order of a certificate can become due.
    """
    if is_lost:
        return issued_certificates.withdraw(after)
    if outcome.event == "verified":
        return renewal_schedule.follow(before, after, clock.seconds())
    return after, []


def schedule(reservation: Item) -> list[Write]:
    """Return the write that schedules a reservation's DNS check. Return no write if the domain requires no proof."""
    return [Write.put({"scope": _DUE, "id": id, "body": {}, "revision": 1}) for id in _entries(reservation)]


def unschedule(reservation: Item) -> list[Write]:
    """Return the writes that remove a reservation from the schedule and from the list of proved domains."""
    return [*(Write.delete(_DUE, id) for id in _entries(reservation)), *list_proved(reservation, None)]


def reschedule(before: Item, after: Item) -> list[Write]:
    """Return the writes that update the schedule and the list of proved domains after a change of a proof."""
    if _entries(before) == _entries(after):
        return list_proved(before, after)
    return [*(Write.delete(_DUE, id) for id in _entries(before)), *schedule(after), *list_proved(before, after)]


def _entries(item: Item) -> list[str]:
    """Return the id of a reservation's entry in the schedule, in a list. Return [] if the domain requires no proof."""
    proof = item.body.get("proof")
    try:
        next_at = decoding.decode(Proof, proof).next_at if proof else None
    except MalformedRecord:  # the entry's id is unknown; `find_due` removes the entry later
        next_at = None
    return [] if next_at is None else [f"{_LAST - next_at:010}/{item.account}/{item.id}"]


def _parse_entry(entry: str) -> tuple[str, str] | None:
    """Return the primary key of the reservation that an entry's id contains, or None if the id is malformed."""
    _, _, named = entry.partition("/")
    account, _, id = named.partition("/")
    return (_scope(account), id) if kinds.ACCOUNTS.has(account) and kinds.RESERVED_DOMAINS.has(id) else None


def _decode_live(item: Item) -> DueCheck | None:
    """Return the check of a reservation. Return None if it is deleted or malformed, or its domain requires no proof."""
    if not item.is_live or not (item.body or item.malformed):
        return None
    try:
        return _decode(item)
    except MalformedRecord as malformed:
        decoding.report(item.scope, item.id, malformed)
        return None


def _decode(item: Item) -> DueCheck | None:
    stored = records.decode(ReservedDomain, item)
    return DueCheck(item.account, item.id, stored.domain, stored.progress, item.revision) if stored.progress else None


def _read_same(check: DueCheck) -> Item | None:
    """Return the reservation of a check, or None if its revision has changed since the check was read."""
    item = table.find(_scope(check.account), check.id)
    return item if item and item.revision == check.revision and _decode_live(item) else None


def _scope(account: str) -> str:
    return items.scope(account, kinds.RESERVED_DOMAINS.path)
