"""An edge host after random changes of accounts, compared with a host that loads the same names from the records.

`CASES=1000 SEED=7` tries that many pairs of accounts. Each pair has fifty changes, and loads and unloads between them.
"""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from chalicelib.model.serving.account_view import Service
from chalicelib.storage.client import aws
from chalicelib.storage.records import change_log
from chalicelib.storage.records.change_log import ItemKey
from edge.control.names import name_resolver, reads
from edge.process.settings import Limits
from edge.store.changes import Follower
from tests.conftest import stored
from tests.edge import case_counts
from tests.edge.control.names.random_host import PORTS, D, Host, Surroundings, find_differences
from tests.edge.control.names.random_owner import VISITED, Operator, Owner
from tests.edge.control.names.virtual_loop import DelayedCalls, ImmediateCalls, VirtualLoop
from tests.memory_table import MemoryTable
from tests.transports import Client

CHANGES = 50
DELAYS = (0.0, 0.001, 0.002, 0.003)  # seconds for which a name is loaded before the next change
THREADED_SHARE = 10  # one case of so many uses botocore and threads
SEED = int(os.environ.get("SEED", "1"))
LIMITS = (Limits(), Limits(max_loaded_names_per_account=3), Limits(max_loaded_names_per_wildcard=1, max_loaded_mib=6))
SERVICE = Service(D, PORTS, frozenset({D, f"*.{D}"}))


class Case:
    """Two accounts that want the same names, and a host that follows their changes."""

    def __init__(self, owners: list[Owner], operator: Operator, chance: Random, surroundings: Surroundings) -> None:
        self._owners, self._operator, self._chance = owners, operator, chance
        self._follower = Follower(change_log.read_since, time.time())
        self.host = Host(chance.choice(LIMITS), SERVICE, surroundings)
        self.host.read_blocks()

    def step(self) -> list[str]:
        """Change something, load or unload names, and return the differences to another host."""
        self._visit()
        if self._chance.random() < 0.05:
            apps = frozenset(self._chance.choice(((), ("google",))))
            self.host.replan(replace(SERVICE, managed_apps=apps))
        else:
            self._change()
        return find_differences(self.host, [id for it in self._owners for id in it.edges])

    def _visit(self) -> None:
        name, kind = self._chance.choice(VISITED), self._chance.random()
        if kind < 0.4:
            self.host.load(name)
        elif kind < 0.6:
            self.host.begin(name, self._chance.choice(DELAYS))
        elif kind < 0.7:
            self.host.unload(name)

    def _change(self) -> None:
        """Let the owners or the operator act until records change, and then the host handle the change."""
        changed = set[ItemKey]()
        while not changed:
            if self._chance.random() < 0.1:
                self._operator.act()
                self.host.read_blocks()
            else:
                owner = self._owners[self._chance.random() < 0.2]
                changed = owner.change(self._operator.gateway)
            changed |= {item_key for it in self._follower.read(time.time()) for item_key in it.item_keys}
        self.host.apply(changed)
        self.host.read_blocks()


@pytest.mark.parametrize("number", [SEED * 1_000_000 + it for it in range(case_counts.at_least(2))])
def test_a_host_is_as_a_new_one_after_each_change(
    admin: Client,
    stranger: Client,
    number: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TCP_PORTS", f"{PORTS[0]}-{PORTS[-1]}")
    loop = _replace_threads(monkeypatch, Random(number)) if number % THREADED_SHARE else None
    chance = Random(number)
    with asyncio.Runner(loop_factory=loop) as runner:
        owners = [Owner(replace(it, check=lambda *_: None), chance) for it in (admin, stranger)]
        case = Case(owners, Operator(chance), chance, Surroundings(runner))
        for step in range(CHANGES):
            assert case.step() == [], f"step {step}"
            assert "_failed" not in (said := capsys.readouterr().err), f"step {step}: {said}"


def _replace_threads(monkeypatch: pytest.MonkeyPatch, order: Random) -> Callable[[], VirtualLoop]:
    """Replace botocore's client and all threads, which take most of the CPU time. Return how to make the event loop."""
    monkeypatch.setitem(aws._clients, "dynamodb", MemoryTable(stored()))
    monkeypatch.setattr(name_resolver, "ThreadPoolExecutor", ImmediateCalls)
    monkeypatch.setattr(reads, "ThreadPoolExecutor", DelayedCalls)
    return lambda: VirtualLoop(order)
