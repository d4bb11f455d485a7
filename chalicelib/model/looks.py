"""Looks for the proof of reserved domains: which are due, who has one, and what it changed. The live edge makes them.

What is due stands in one scope of the edge, by when: a page of it is one query, whatever is not due. Each entry moves
in the transaction that changes its reservation.
"""

from dataclasses import asdict, dataclass

from chalicelib.model import audit, kinds
from chalicelib.model.changes import Change
from chalicelib.model.kinds import EDGE
from chalicelib.model.proofs import Proof, Step
from chalicelib.model.reservations import ReservedDomain, listed, with_proof
from chalicelib.storage import dynamodb, items, table, writes
from chalicelib.storage.dynamodb import Write
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import Taken

_DUE = items.scope(EDGE, "/looks")
_LAST = 9_999_999_999  # entries sort by the seconds left until then: the one that is longest due has the highest id
_AT_ONCE = 100  # records in one read


@dataclass(frozen=True)
class Due:
    """The proof of a reservation, as of a revision of its record."""

    account: str
    id: str
    domain: str
    proof: Proof
    revision: int


def due(now: int, most: int) -> list[Due]:
    """Return reservations that are to be looked at, the longest due first, at most so many. Raises aws.Unavailable."""
    pages = dynamodb.pages(
        {"scope": _DUE, "now": f"{_LAST - now:010}"},
        limit=most,
        KeyConditionExpression="#scope = :scope AND #id >= :now",
    )
    entries = [entry["id"].split("/") for entry in next(pages)][:most]
    places = [(_scope(account), id) for _, account, id in entries]
    found: list[Due] = []
    for start in range(0, len(places), _AT_ONCE):
        records = dynamodb.get_each(*places[start : start + _AT_ONCE])
        found += [it for item in map(table.of_record, records) if item and (it := _readable(item))]
    return found


def claim(due: Due, *, until: int) -> Due | None:
    """Put a look off, so that nobody else makes it meanwhile; None where another was first. Raises aws.Unavailable."""
    before = _read(due)
    if before is None:
        return None
    after = with_proof(before, Proof(**{**asdict(due.proof), "next_at": until}))
    try:
        writes.commit([*writes.rewrite(before, after), *moved(before, after)])
    except writes.Overtaken:
        return None
    return _due(after)


def holder(domain: str) -> Due | None:
    """Return the reservation that has proved a domain, of whatever account, or None. Raises aws.Unavailable."""
    found = table.look_up("domain", domain)
    item = table.read(_scope(found["account"]), found["id"]) if found else None
    return _readable(item) if item else None


def record(due: Due, step: Step, loser: tuple[Due, Step] | None = None) -> bool:
    """Write down what a look found, and what the one loses from whom it takes the domain; False where nothing was.

    Nothing is written where another changed one of them meanwhile, or has the domain. Raises aws.Unavailable.
    """
    change = Change(audit.EDGE)
    for it, turn in [(due, step), *([loser] if loser else [])]:
        before = _read(it)
        if before is None:
            return False
        after = with_proof(before, turn.proof)
        change = change.also(*moved(before, after))
        if turn.event:
            change = change.rewrite(before, lambda _, after=after: after, verb=turn.event)  # type: ignore[misc]
        else:
            change = change.also(*writes.rewrite(before, after))
    try:
        change.commit()
    except (writes.Overtaken, Taken):
        return False
    return True


def begun(reservation: Item) -> list[Write]:
    """Return the write that schedules the first look at a new reservation, none where it needs no proof."""
    return [Write.put({"scope": _DUE, "id": id, "body": {}, "revision": 1}) for id in _entries(reservation)]


def ended(reservation: Item) -> list[Write]:
    """Return the writes that take a reservation off the schedule, and off the list of what is proved."""
    return [*(Write.delete(_DUE, id) for id in _entries(reservation)), *listed(reservation, None)]


def moved(before: Item, after: Item) -> list[Write]:
    """Return the writes that move a look to another time, and list what is proved; none where both stay."""
    if _entries(before) == _entries(after):
        return listed(before, after)
    return [*(Write.delete(_DUE, id) for id in _entries(before)), *begun(after), *listed(before, after)]


def _entries(item: Item) -> list[str]:
    """Return the id of the entry of a reservation, none where it needs no proof."""
    proof = item.body.get("proof")
    return [f"{_LAST - int(proof['next_at']):010}/{item.account}/{item.id}"] if proof else []


def _readable(item: Item) -> Due | None:
    """Return the proof of a reservation, None where its record is of another form than the API writes."""
    try:
        return _due(item)
    except TypeError:
        return None


def _due(item: Item) -> Due:
    stored = ReservedDomain.of(item.body)
    return Due(item.account, item.id, stored.domain, Proof(**stored.proof), item.revision)


def _read(due: Due) -> Item | None:
    """Return the record of a reservation, None where it is not in the revision that was read."""
    item = table.read(_scope(due.account), due.id)
    return item if item and item.revision == due.revision else None


def _scope(account: str) -> str:
    return items.scope(account, kinds.RESERVED_DOMAINS.path)
