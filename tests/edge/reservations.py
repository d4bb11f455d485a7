"""Reserved domains in memory, as the looks of edge hosts use them."""

import threading
from dataclasses import dataclass, field, replace

from chalicelib.model.names import proofs
from chalicelib.model.names.proof_checks import DueCheck
from chalicelib.model.names.proofs import Proof, ProofChange
from edge.store.records import Unavailable

NOW = 1_800_000_000
DAY = 86400


@dataclass
class Reservations:
    """The store, in memory. `events` are ids and what happened to them; `holders` ids by domain."""

    kept: dict[str, DueCheck] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)
    events: list[tuple[str, str]] = field(default_factory=list)
    is_down: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, id: str, *, domain: str = "", account: str = "", status: str = "pending") -> None:
        proof = proofs.begin(NOW, value=f"value-{id}", cname_target=f"target-{id}")
        if status != "pending":
            proof = replace(proof, status=status, seen_at=NOW - DAY, since=NOW - DAY)  # type: ignore[arg-type]
            self.holders[domain or id] = id
        self.kept[id] = DueCheck(account or f"account-{id}", id, domain or id, proof, 1)

    def due(self, now: int, most: int) -> list[DueCheck]:
        if self.is_down:
            raise Unavailable
        found = (it for it in self.kept.values() if it.proof.next_at <= now)
        return sorted(found, key=lambda it: it.proof.next_at)[:most]

    def claim(self, due: DueCheck, *, until: int) -> DueCheck | None:
        return self._put(due, replace(due.proof, next_at=until))

    def holder(self, domain: str) -> DueCheck | None:
        return self.kept[self.holders[domain]] if domain in self.holders else None

    def record(self, due: DueCheck, step: ProofChange, loser: tuple[DueCheck, ProofChange] | None = None) -> bool:
        holder = self.holders.get(due.domain, due.id)
        if step.proof.holds and holder not in (due.id, loser[0].id if loser else ""):
            return False
        if not self._put(due, step.proof):
            return False
        if loser:
            self._put(loser[0], loser[1].proof)
            self.events.append((loser[0].id, loser[1].event))
        if step.proof.holds:
            self.holders[due.domain] = due.id
        elif due.proof.holds:
            del self.holders[due.domain]
        if step.event:
            self.events.append((due.id, step.event))
        return True

    def remove(self, id: str) -> None:
        removed = self.kept.pop(id)
        if removed.proof.holds:
            del self.holders[removed.domain]

    def wish(self, id: str) -> None:
        self._put(self.kept[id], proofs.request_check(self.kept[id].proof, NOW))

    def _put(self, due: DueCheck, proof: Proof) -> DueCheck | None:
        with self.lock:
            kept = self.kept.get(due.id)
            if kept is None or kept.revision != due.revision:
                return None
            self.kept[due.id] = replace(kept, proof=proof, revision=kept.revision + 1)
            return self.kept[due.id]
