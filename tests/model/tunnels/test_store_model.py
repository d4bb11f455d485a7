"""Random schedules of gateways over the table: one owner of a name in the records, and one event for each end.

The clocks of gateways and edge hosts are wrong by up to two seconds. Readings of the log are late or lost, and gateways
are killed and stopped.
"""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from chalicelib import clock
from chalicelib.model.tunnels import gateways, online_tunnels
from chalicelib.model.tunnels.gateways import Gateway
from edge.store.records import Grant, NameTaken, Opening
from edge.store.table import Store
from tests.transports import Client

_LEASE, _SKEW, _STEPS = 15, 2, 200
NAMES = [f"n{number}.tunnels.localhost" for number in range(3)]
CREDENTIALS = [f"sshcr_{number}" for number in range(3)]


@dataclass
class Process:
    """A gateway's process. Its own clock is `skew` seconds off; `ends_at` and `log_read_at` are monotonic."""

    id: str
    skew: int
    ends_at: int
    log_read_at: int
    stopped_until: int = 0
    tunnels: dict[str, str] = field(default_factory=dict)  # ids by name

    def serves(self, now: int) -> bool:
        return now < self.ends_at and now >= self.stopped_until


class World:
    def __init__(self, seed: int, account: str, now: int) -> None:
        self.random, self.account, self.now = random.Random(seed), account, now
        self.store = Store("local", "tunnels.localhost")
        self.running: list[Process] = []
        self.opened: set[str] = set()
        self.count = 0
        self.seed = seed

    @contextmanager
    def at_clock(self, skew: int) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(clock, "seconds", lambda: self.now + skew)
            yield

    def step(self) -> None:
        self.now += self.random.randint(0, 2)
        for process in list(self.running):
            if self.now >= process.stopped_until:
                self._work(process)
        act = self.random.choice([self._start, self._open, self._open, self._open, self._kill, self._stop, self._sweep])
        act()

    def _start(self) -> None:
        if len(self.running) < 4:
            self.count += 1
            process = Process(f"gw-{self.seed}-{self.count}", self._skew(), self.now + _LEASE, self.now)
            with self.at_clock(process.skew):
                assert gateways.announce(Gateway(process.id, "192.0.2.1", 1), lease=_LEASE)
            self.running.append(process)

    def _work(self, process: Process) -> None:
        if self.now >= process.ends_at:
            self.running.remove(process)  # it closes all its tunnels, and takes a new id
            return
        if self.random.random() < 0.7:  # otherwise the reading is late or lost
            process.log_read_at = self.now
            tunnel_ids = {tunnel.id for tunnel in online_tunnels.read_tunnels_of_gateway(process.id)}
            process.tunnels = {name: id for name, id in process.tunnels.items() if id in tunnel_ids}
        if process.ends_at - self.now <= _LEASE - _LEASE // 3 and process.log_read_at > process.ends_at - _LEASE:
            with self.at_clock(process.skew):
                if gateways.renew(process.id, lease=_LEASE):
                    process.ends_at = self.now + _LEASE
                else:
                    self.running.remove(process)

    def _open(self) -> None:
        able = [process for process in self.running if process.serves(self.now)]
        if not able:
            return
        process, name = self.random.choice(able), self.random.choice(NAMES)
        credential = self.random.choice(CREDENTIALS)
        opening = Opening(Grant(self.account, credential, ()), process.id, "ts_1", "", name, f"https://{name}")
        with self.at_clock(process.skew):
            try:
                id = self.store.open(opening, most=100).id
            except NameTaken:
                return
        process.tunnels[name] = id
        self.opened.add(id)

    def _kill(self) -> None:
        if self.running and self.random.random() < 0.3:
            self.running.remove(self.random.choice(self.running))

    def _stop(self) -> None:
        if self.running:
            self.random.choice(self.running).stopped_until = self.now + self.random.randint(1, 2 * _LEASE)

    def _sweep(self) -> None:
        with self.at_clock(self._skew()):
            for gateway in gateways.list_gateways():
                if not gateway.ended:
                    gateways.fence(gateway.id)
                elif self.random.random() < 0.8:
                    for tunnel in online_tunnels.read_tunnels_of_gateway(gateway.id):
                        online_tunnels.end_of_gateway(tunnel, gateway)
                    if not online_tunnels.read_tunnels_of_gateway(gateway.id):
                        gateways.remove(gateway.id)

    def check(self) -> None:
        tunnels = online_tunnels.list_stored(self.account)
        names = Counter(tunnel.unique_keys[0].value for tunnel in tunnels)
        assert not [name for name, count in names.items() if count > 1]
        for process in self.running:  # no gateway serves without a lease that the table can still know
            assert not process.serves(self.now) or process.ends_at - self.now <= _LEASE

    def _skew(self) -> int:
        return self.random.randint(-_SKEW, _SKEW)


@pytest.mark.parametrize("seed", range(2))
def test_a_name_has_one_owner_and_an_end_one_event(admin: Client, seed: int) -> None:
    world = World(seed, admin.account, clock.seconds())
    for _ in range(_STEPS):
        world.step()
        world.check()
    events = admin.all("/audit_events", "audit_events")
    end_counts = Counter(event["resource_id"] for event in events if event["action"] == "tunnel.delete")
    tunnel_ids = {tunnel.id for tunnel in online_tunnels.list_stored(admin.account)}
    assert set(end_counts.values()) <= {1}
    assert end_counts.keys() == world.opened - tunnel_ids
    assert len(world.opened) > 20
