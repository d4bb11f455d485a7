"""Looks for the proof of reserved domains: which are due, who has one, and what it changed. The live edge makes them.

What is due stands in one scope of the edge, by when: a page of it is one query, whatever is not due. Each entry moves
in the transaction that changes its reservation.
"""

from dataclasses import asdict, dataclass

from chalicelib.model import audit, kinds, records
from chalicelib.model.changes import Change
from chalicelib.model.kinds import EDGE
from chalicelib.model.proofs import Proof, ProofChange
from chalicelib.model.reservations import ReservedDomain, list_proved, set_proof
from chalicelib.storage import decoding, dynamodb, items, table, writes
from chalicelib.storage.decoding import MalformedRecord
from chalicelib.storage.dynamodb import Write
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import Taken

_DUE = items.scope(EDGE, "/looks")
_LAST = 9_999_999_999  # entries sort by the seconds left until then: the one that is longest due has the highest id
_AT_ONCE = 100  # records in one read


@dataclass(frozen=True)
class DueCheck:
    """The proof of a reservation, as of a revision of its record."""

    account: str
    id: str
    domain: str
    proof: Proof
    revision: int


def find_due(now: int, most: int) -> list[DueCheck]:
    """Return reservations that are to be looked at, the longest due first, at most so many. Raises aws.Unavailable."""
    pages = dynamodb.pages(
        {"scope": _DUE, "now": f"{_LAST - now:010}"},
        limit=most,
        KeyConditionExpression="#scope = :scope AND #id >= :now",
    )
    entries = [entry["id"] for entry in next(pages)][:most]
    named = {id: place for id in entries if (place := _parse_entry(id))}
    places, found = [*named.values()], list[DueCheck]()
    for start in range(0, len(places), _AT_ONCE):
        read = dynamodb.get_each(*places[start : start + _AT_ONCE])
        found += [it for record in read if record and (it := _decode_live(Item.from_record(record)))]
    known = {(_scope(it.account), it.id) for it in found}
    for id in entries:
        if named.get(id) not in known:  # or it would be the first that is due for ever
            dynamodb.do(Write.delete(_DUE, id))
    return found


def claim(due: DueCheck, *, until: int) -> DueCheck | None:
    """Put a look off, so that nobody else makes it meanwhile; None where another was first. Raises aws.Unavailable."""
    before = _read_same(due)
    if before is None:
        return None
    after = set_proof(before, Proof(**{**asdict(due.proof), "next_at": until}))
    try:
        writes.commit([*writes.rewrite(before, after), *reschedule(before, after)])
    except writes.Overtaken:
        return None
    return _decode(after)


def find_proved(domain: str) -> DueCheck | None:
    """Return the reservation that has proved a domain, of whatever account, or None. Raises aws.Unavailable."""
    found = table.look_up("domain", domain)
    item = table.find(_scope(found["account"]), found["id"]) if found else None
    return _decode_live(item) if item else None


def record(due: DueCheck, step: ProofChange, loser: tuple[DueCheck, ProofChange] | None = None) -> bool:
    """Write down what a look found, and what the one loses from whom it takes the domain; False where nothing was.

    Nothing is written where another changed one of them meanwhile, or has the domain. Raises aws.Unavailable.
    """
    change = Change(audit.EDGE)
    for it, turn in [(due, step), *([loser] if loser else [])]:
        before = _read_same(it)
        if before is None:
            return False
        after = set_proof(before, turn.proof)
        change = change.also(*reschedule(before, after))
        if turn.event:
            change = change.rewrite(before, lambda _, after=after: after, verb=turn.event)  # type: ignore[misc]
        else:
            change = change.also(*writes.rewrite(before, after))
    try:
        change.commit()
    except (writes.Overtaken, Taken):
        return False
    return True


def schedule(reservation: Item) -> list[Write]:
    """Return the write that schedules the first look at a new reservation, none where it needs no proof."""
    return [Write.put({"scope": _DUE, "id": id, "body": {}, "revision": 1}) for id in _entries(reservation)]


def unschedule(reservation: Item) -> list[Write]:
    """Return the writes that take a reservation off the schedule, and off the list of what is proved."""
    return [*(Write.delete(_DUE, id) for id in _entries(reservation)), *list_proved(reservation, None)]


def reschedule(before: Item, after: Item) -> list[Write]:
    """Return the writes that move a look to another time, and list what is proved; none where both stay."""
    if _entries(before) == _entries(after):
        return list_proved(before, after)
    return [*(Write.delete(_DUE, id) for id in _entries(before)), *schedule(after), *list_proved(before, after)]


def _entries(item: Item) -> list[str]:
    """Return the id of the entry of a reservation, none where it needs no proof."""
    proof = item.body.get("proof")
    try:
        next_at = decoding.decode(Proof, proof).next_at if proof else None
    except MalformedRecord:  # its entry goes when it is due
        next_at = None
    return [] if next_at is None else [f"{_LAST - next_at:010}/{item.account}/{item.id}"]


def _parse_entry(entry: str) -> tuple[str, str] | None:
    """Return the scope and id of the reservation that an entry names, or None if it names none."""
    _, _, named = entry.partition("/")
    account, _, id = named.partition("/")
    return (_scope(account), id) if kinds.ACCOUNTS.has(account) and kinds.RESERVED_DOMAINS.has(id) else None


def _decode_live(item: Item) -> DueCheck | None:
    """Return the proof of a live reservation, or None if its record is malformed or it needs none."""
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


def _read_same(due: DueCheck) -> Item | None:
    """Return the record of a reservation, None where it is not in the revision that was read."""
    item = table.find(_scope(due.account), due.id)
    return item if item and item.revision == due.revision and _decode_live(item) else None


def _scope(account: str) -> str:
    return items.scope(account, kinds.RESERVED_DOMAINS.path)
