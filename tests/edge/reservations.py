"""Reserved domains in the table of a test, with checks that are due."""

from dataclasses import asdict, replace

from chalicelib.model import changes
from chalicelib.model.audit import trail
from chalicelib.model.base import kinds, records
from chalicelib.model.changes import Change
from chalicelib.model.names import proof_checks, proofs
from chalicelib.model.names.proofs import Proof, ProofStatus
from chalicelib.model.names.reservations import ReservedDomain, set_proof
from chalicelib.storage.records import items, table, writes
from chalicelib.storage.records.items import Item

NOW = 1_800_000_000
DAY = 86400


class Reservations:
    """Reserved domains, by short names. Each has an account of its own, unless one is given."""

    def __init__(self) -> None:
        self._item_keys: dict[str, tuple[str, str]] = {}
        self._domains: set[str] = set()

    def add(
        self, name: str, *, domain: str = "", account: str = "", status: ProofStatus = "pending", next_at: int = NOW
    ) -> None:
        proof = replace(proofs.begin(NOW, value=f"value-{name}", cname_target=f"target-{name}"), next_at=next_at)
        if status != "pending":
            proof = replace(proof, status=status, seen_at=NOW - DAY, since=NOW - DAY)
        scope, id = items.scope(_id("acct", account or name), kinds.RESERVED_DOMAINS.path), _id("rd", name)
        stored = ReservedDomain(domain=domain or name, proof=asdict(proof))
        item = Item(scope, id, stored.to_record(), unique_keys=stored.unique_keys(_id("acct", account or name), id))
        Change(trail.EDGE).put(item).add(*proof_checks.schedule(item)).commit()
        self._item_keys[name] = scope, id
        self._domains.add(stored.domain)

    def remove(self, name: str) -> None:
        change = Change(trail.EDGE).add(*proof_checks.unschedule(self._read(name)))
        assert changes.delete(change, *self._item_keys.pop(name))

    def request_check(self, name: str) -> None:
        before = self._read(name)
        after = set_proof(before, proofs.request_check(self.proofs[name], NOW))
        writes.commit([*writes.rewrite(before, after), *proof_checks.reschedule(before, after)])

    @property
    def proofs(self) -> dict[str, Proof]:
        stored = {name: records.decode(ReservedDomain, self._read(name)).progress for name in self._item_keys}
        return {name: proof for name, proof in stored.items() if proof}

    @property
    def revisions(self) -> dict[str, int]:
        return {name: self._read(name).revision for name in self._item_keys}

    @property
    def holders(self) -> dict[str, str]:
        """Return the names of the reservations that have proved a domain, by domain."""
        names = {id: name for name, (_, id) in self._item_keys.items()}
        owners = {domain: proof_checks.find_proved(domain) for domain in self._domains}
        return {domain: names[owner.id] for domain, owner in owners.items() if owner}

    @property
    def events(self) -> list[tuple[str, str]]:
        """Return the audit events about the reservations, oldest first: names and what happened to them."""
        names = {id: name for name, (_, id) in self._item_keys.items()}
        scopes = {f"{scope.partition('#')[0]}#{trail.OF_THE_EDGE}" for scope, _ in self._item_keys.values()}
        events = sorted((event for scope in scopes for event in table.read_all(scope)), key=lambda event: event.id)
        actions = ((names[event.body["resource_id"]], event.body["action"].rpartition(".")[2]) for event in events)
        return [action for action in actions if action[1] not in ("create", "delete")]

    def _read(self, name: str) -> Item:
        item = table.find(*self._item_keys[name])
        assert item
        return item


def _id(prefix: str, name: str) -> str:
    return f"{prefix}_{name.replace('-', '').replace('.', ''):0>27}"
