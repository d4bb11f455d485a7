"""The traffic of a gateway's tunnels by account and hour, until it is stored. This file does no I/O.

A write to the store contains the whole sum of an hour so far, so a repeated write does not count traffic twice.
`to_text` returns the unwritten sums. If this process is killed, the next process reads them.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass

from chalicelib.model.tunnels.tunnels import Traffic


@dataclass(frozen=True)
class HourlyUsage:
    """The usage of an account in one hour at one gateway. `hour` is in UTC, such as "2026-11-22T14"."""

    account: str
    hour: str
    usage: Traffic


class Ledger:
    """The usage of accounts in the current hour, and in earlier hours that are not yet in the store."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], Traffic] = {}
        self._written: Mapping[tuple[str, str], Traffic] = {}

    def add(self, account: str, hour: str, usage: Traffic) -> None:
        """Add usage to the sum of an account in an hour."""
        if usage != Traffic():
            self._sums[account, hour] = self._sums.get((account, hour), Traffic()) + usage

    def list_unwritten(self) -> list[HourlyUsage]:
        """Return the sums that are new, or have changed since they were written to the store."""
        return [HourlyUsage(*key, usage) for key, usage in self._sums.items() if self._written.get(key) != usage]

    def mark_written(self, sums: Iterable[HourlyUsage], hour: str) -> None:
        """Record that sums of usage were written to the store.

        Remove the written sums of all hours except the current `hour`, because they cannot change any more.
        """
        self._written = {
            **self._written,
            **{(hourly_sum.account, hourly_sum.hour): hourly_sum.usage for hourly_sum in sums},
        }
        over = [key for key, usage in self._sums.items() if key[1] != hour and self._written.get(key) == usage]
        for key in over:
            del self._sums[key]
        self._written = {key: usage for key, usage in self._written.items() if key in self._sums}

    def to_text(self, gateway: str) -> str:
        """Return the unwritten sums as text.

        If this gateway is killed, the next process reads this text and writes the sums to the store.
        """
        sums = [
            [hourly_sum.account, hourly_sum.hour, *astuple(hourly_sum.usage)] for hourly_sum in self.list_unwritten()
        ]
        return json.dumps({"gateway": gateway, "sums": sums})


def parse(text: str) -> tuple[str, list[HourlyUsage]]:
    """Parse the output of `to_text`. Return the gateway's id and its unwritten sums.

    Raises ValueError, KeyError, TypeError.
    """
    parsed = json.loads(text)
    sums = [HourlyUsage(account, hour, Traffic(*counts)) for account, hour, *counts in parsed["sums"]]
    return str(parsed["gateway"]), sums
