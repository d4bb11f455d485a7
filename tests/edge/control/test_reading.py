"""What control hears by the log, while many write and it is started again: the same as a look at all records."""

import random
import time
from concurrent.futures import ThreadPoolExecutor

from chalicelib.model import tunnels
from chalicelib.model.gateways import Gateway
from chalicelib.model.tunnels import Usage
from chalicelib.storage import table
from edge.control.reading import Reader
from edge.store.records import Grant, NameTaken, Opening, Store, TooManyTunnels
from edge.store.table import Records
from edge.traffic.world import World
from tests.edge.memory import Memory
from tests.transports import Client

WRITERS, CHANGES, STARTS = 16, 2000, 10


class Control:
    """The world of one control, read with a clock that differs by some seconds."""

    def __init__(self, store: Store, skew: float) -> None:
        self._store, self._skew, self._later = store, skew, 0.0
        self.start()

    def start(self) -> None:
        """Begin anew, as after a kill."""
        self.world = World("tunnels.localhost")
        self.reader = Reader(self._store, lambda: time.time() + self._skew, self._steady)

    def hear(self) -> None:
        for fact in self.reader.news(self.world).facts:
            self.world.take(fact)

    def look(self) -> None:
        """Hear as late as all is read again."""
        self._later += 180
        self.hear()

    def known(self) -> tuple[object, object]:
        """Return the gateways and what they carry."""
        carried = {id: it for id, it in self.world.tunnels.items() if it.gateway in self.world.gateways}
        return dict(self.world.gateways), carried

    def _steady(self) -> float:
        return time.monotonic() + self._later


def change(store: Store, number: int, chance: random.Random) -> None:
    """Open a tunnel, close one, have a gateway come or go."""
    gateway = f"gw-{chance.randrange(4)}"
    if chance.random() < 0.1:
        if chance.random() < 0.5:
            store.announce(Gateway(gateway, "192.0.2.1", 4433), lease=600)
        else:
            store.withdraw(gateway)
        return
    account = f"acct_{number}"
    name = f"n{chance.randrange(20)}.{account}.tunnels.localhost"
    carried = [it for it in store.carried_by(gateway) if it.account == account] if chance.random() < 0.4 else []
    if carried:
        store.close(chance.choice(carried), Usage(0, 0, 0))
        return
    try:
        grant = Grant(account, f"sshcr_{account}", ())
        store.open(Opening(grant, gateway, "ts_1", "192.0.2.9", name, f"https://{name}"), lease=600, most=100)
    except (NameTaken, TooManyTunnels):
        pass


def test_two_controls_end_with_what_a_look_gives_and_have_missed_nothing() -> None:
    store = Memory()
    steady, killed = Control(store, -2.5), Control(store, 2.5)

    def write(writer: int) -> None:
        chance = random.Random(writer)
        while len(store.log) < CHANGES:
            change(store, writer, chance)
            time.sleep(0.001 * chance.randrange(3))

    with ThreadPoolExecutor(WRITERS) as threads:
        writing = [threads.submit(write, writer) for writer in range(WRITERS)]
        starts = 0
        while not all(it.done() for it in writing):
            steady.hear()
            killed.hear()
            if starts < STARTS and len(store.log) > CHANGES * starts / STARTS:
                killed.start()
                starts += 1
        for it in writing:
            it.result()
    for control in (steady, killed):
        control.hear()
        heard = control.known()
        control.look()
        fresh = Control(store, 0)
        fresh.hear()
        assert heard == control.known() == fresh.known()
        assert control.reader.missed == 0
    assert (starts, len(store.log) >= CHANGES) == (STARTS, True)


def test_a_change_that_the_log_does_not_tell_is_counted_and_taken_up() -> None:
    store, told = Memory(), Gateway("gw-1", "192.0.2.1", 4433)
    store.announce(told, lease=60)
    control = Control(store, 0)
    control.hear()
    untold = store.open(
        Opening(Grant("acct_a", "sshcr_1", ()), "gw-1", "ts_1", "192.0.2.9", "a.tunnels.localhost", ""),
        lease=60,
        most=9,
    )
    store.log.clear()
    control.hear()
    assert control.known() == ({"gw-1": told}, {})
    control.look()
    assert (control.known(), control.reader.missed) == (({"gw-1": told}, {untold.id: untold}), 1)
    store.withdraw("gw-1")
    store.log.clear()
    control.look()
    assert (control.known(), control.reader.missed) == (({}, {}), 2)


def test_a_lease_that_ends_is_no_change_that_was_missed() -> None:
    store = Memory()
    store.announce(Gateway("gw-1", "192.0.2.1", 4433), lease=60)
    lapsing = Opening(Grant("acct_a", "sshcr_1", ()), "gw-1", "ts_1", "192.0.2.9", "a.tunnels.localhost", "")
    store.open(lapsing, lease=1, most=9)
    control = Control(store, 0)
    control.hear()
    assert len(control.world.tunnels) == 1
    time.sleep(1.1)
    control.look()
    assert (control.world.tunnels, store.online, control.reader.missed) == ({}, {}, 0)


def test_what_a_host_has_lost_is_ended_with_its_gateway(admin: Client) -> None:
    records = Records("local", "tunnels.localhost")
    records.announce(Gateway("gw-1", "192.0.2.1", 4433), lease=0)
    opening = Opening(
        Grant(admin.account, "sshcr_1", ()), "gw-1", "ts_1", "192.0.2.9", "a.tunnels.localhost", "https://a"
    )
    lost = records.open(opening, lease=0, most=9)
    control = Control(records, 0)
    control.hear()
    assert control.known() == ({}, {})
    assert (records.gateways(), records.carried_by("gw-1"), tunnels.end_lapsed(admin.account)) == ([], [], [])
    events = table.newest(f"{admin.account}#/audit_events/edge")
    assert [(it.body["action"], it.body["resource_id"]) for it in events] == [
        ("tunnel.delete", lost.id),
        ("tunnel.create", lost.id),
    ]
