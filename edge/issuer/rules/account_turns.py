"""Decides which due entries are attempted first: urgent renewals, then one entry of each account in turn.

This file does no I/O.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from chalicelib.model.names.renewal_schedule import RenewalEntry


@dataclass(frozen=True)
class Candidate:
    """A due entry of the renewal schedule. `urgent_at` is when its renewal became urgent, or 0 if it is not urgent."""

    account: str
    id: str
    due_at: int
    urgent_at: int = 0


def candidate(entry: RenewalEntry, now: int) -> Candidate:
    """Convert an entry of the renewal schedule.

    The result has 0 as `urgent_at` if the renewal is not urgent at the time `now`.
    """
    urgent_at = entry.renewal.urgent_at
    is_urgent = 0 < urgent_at <= now
    return Candidate(entry.account, entry.reservation, entry.renewal.due_at, urgent_at if is_urgent else 0)


@dataclass
class AccountTurns:
    """Remembers when each account last had a turn. Each attempt is a turn, even an urgent renewal."""

    _count: int = 0
    _last: dict[str, int] = field(default_factory=dict)  # the number of the last turn of each account

    def choose(self, due: Iterable[Candidate], limit: int) -> list[Candidate]:
        """Return at most `limit` candidates, in the order of their attempts. Count a turn for the account of each."""
        candidates = self.sort(due)
        chosen = candidates[:limit]
        for candidate in chosen:
            self._count += 1
            self._last[candidate.account] = self._count
        self._forget({candidate.account for candidate in candidates})
        return chosen

    def sort(self, due: Iterable[Candidate]) -> list[Candidate]:
        """Return candidates in the order in which to attempt them."""
        candidates = sorted(due, key=lambda candidate: (candidate.due_at, candidate.id))
        urgent = sorted(
            (candidate for candidate in candidates if candidate.urgent_at), key=lambda candidate: candidate.urgent_at
        )
        return [*urgent, *self._interleave([candidate for candidate in candidates if not candidate.urgent_at])]

    def _interleave(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return candidates in rounds, with one of each account.

        In a round, the longest-waiting account comes first.
        """
        counts, rounds = Counter[str](), defaultdict[int, list[Candidate]](list)
        for candidate in candidates:
            rounds[counts[candidate.account]].append(candidate)
            counts[candidate.account] += 1
        by_round = (
            sorted(entries, key=lambda candidate: self._last.get(candidate.account, 0))
            for _, entries in sorted(rounds.items())
        )
        return [candidate for entries in by_round for candidate in entries]

    def _forget(self, accounts: set[str]) -> None:
        """Forget the turns of accounts without due entries. When such an account has an entry again, it comes first."""
        self._last = {account: turn for account, turn in self._last.items() if account in accounts}
