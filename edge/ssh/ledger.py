"""The traffic of a gateway's tunnels, by account and hour, until it is written. Pure.

What is written of an hour is its sum, so that nothing counts twice; `text` is what the next process goes on with.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass

from chalicelib.model.tunnels import Traffic


@dataclass(frozen=True)
class Sum:
    """The sum of an account's hour, "2026-11-22T14" (UTC), at a gateway."""

    account: str
    hour: str
    usage: Traffic


class Ledger:
    """The sums of a gateway that are not over, or not written."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], Traffic] = {}
        self._written: Mapping[tuple[str, str], Traffic] = {}

    def add(self, account: str, hour: str, usage: Traffic) -> None:
        """Add to an hour of an account."""
        if usage != Traffic():
            self._sums[account, hour] = self._sums.get((account, hour), Traffic()) + usage

    def unwritten(self) -> list[Sum]:
        """Return the sums that are others than those that were written."""
        return [Sum(*place, usage) for place, usage in self._sums.items() if self._written.get(place) != usage]

    def wrote(self, sums: Iterable[Sum], hour: str) -> None:
        """Hear which were written; forget those of other hours than the present one."""
        self._written = {**self._written, **{(it.account, it.hour): it.usage for it in sums}}
        over = [place for place, usage in self._sums.items() if place[1] != hour and self._written.get(place) == usage]
        for place in over:
            del self._sums[place]
        self._written = {place: usage for place, usage in self._written.items() if place in self._sums}

    def text(self, gateway: str) -> str:
        """Return the sums that another process writes for this gateway, should it be killed."""
        left = [[it.account, it.hour, *astuple(it.usage)] for it in self.unwritten()]
        return json.dumps({"gateway": gateway, "sums": left})


def left(text: str) -> tuple[str, list[Sum]]:
    """Return a gateway that was killed, and the sums that it has left to write. Raises ValueError."""
    read = json.loads(text)
    sums = [Sum(account, hour, Traffic(*counts)) for account, hour, *counts in read["sums"]]
    return str(read["gateway"]), sums
