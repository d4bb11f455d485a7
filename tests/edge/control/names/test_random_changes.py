"""An edge host after random changes of accounts, compared with a host that loads the same names from the records.

`CASES=1000 SEED=7` tries that many pairs of accounts. Each pair has fifty changes, loads and unloads.
"""

import os
import time
from contextlib import closing
from dataclasses import replace
from random import Random

import pytest

from chalicelib.model.serving.account_view import Service
from chalicelib.storage.records.change_log import ItemKey
from edge.process.settings import Limits
from edge.store.changes import Follower
from tests.edge import case_counts
from tests.edge.control.names.random_host import PORTS, STORE, D, Host, find_differences
from tests.edge.control.names.random_owner import VISITED, Operator, Owner
from tests.transports import Client

CHANGES = 50
SEED = int(os.environ.get("SEED", "1"))
LIMITS = (Limits(), Limits(max_loaded_names_per_account=3), Limits(max_loaded_names_per_wildcard=1, max_loaded_mib=6))
SERVICE = Service(D, PORTS, frozenset({D, f"*.{D}"}))


class Case:
    """Two accounts that want the same names, and a host that follows their changes."""

    def __init__(self, owners: list[Owner], operator: Operator, chance: Random) -> None:
        self._owners, self._operator, self._chance = owners, operator, chance
        self._follower = Follower(STORE.list_changes, time.time())
        self.host = Host(chance.choice(LIMITS), SERVICE)
        self.host.read_blocks()

    def step(self) -> list[str]:
        """Change something, load or unload names, and return the differences to another host."""
        self._visit()
        kind = self._chance.random()
        if kind < 0.05:
            apps = frozenset(self._chance.choice(((), ("google",))))
            self.host.replan(replace(SERVICE, managed_apps=apps))
        elif kind < 0.15:
            self._operator.act()
            self._follow(set())
        else:
            owner = self._owners[self._chance.random() < 0.2]
            self._follow(owner.change(self._operator.gateway))
        return find_differences(self.host, [id for it in self._owners for id in it.edges])

    def _visit(self) -> None:
        name, kind = self._chance.choice(VISITED), self._chance.random()
        if kind < 0.4:
            self.host.load(name)
        elif kind < 0.5:
            self.host.unload(name)

    def _follow(self, damaged: set[ItemKey]) -> None:
        item_keys = {item_key for it in self._follower.read(time.time()) for item_key in it.item_keys}
        self.host.apply(item_keys | damaged)
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
    chance = Random(number)
    case = Case([Owner(it, chance) for it in (admin, stranger)], Operator(chance), chance)
    with closing(case.host):
        for step in range(CHANGES):
            assert case.step() == [], f"step {step}"
            assert "_failed" not in (said := capsys.readouterr().err), f"step {step}: {said}"
