"""What control hears by the log, while many write and it is started again: the same as a look at all records."""

import asyncio
import random
import time
from concurrent.futures import ThreadPoolExecutor

from chalicelib.model.base import kinds
from chalicelib.model.edges.backends import HttpResponse, Weighted
from chalicelib.model.edges.modules import BackendModule
from chalicelib.model.edges.served import Modules, ServedBackend, ServedEdge, ServedRoute
from chalicelib.model.tunnels import online_tunnels
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import Traffic
from chalicelib.storage.records import table
from edge.control.edge_records import EdgeRecords
from edge.control.reading import Reader
from edge.link.authority import KeyPair
from edge.plan.record_index import Removed
from edge.plan.world import World
from edge.store.records import Grant, NameTaken, Opening, Store, TooManyTunnels
from edge.store.table import TableStore
from tests.edge.memory import Memory
from tests.live.edge.running import until, uploaded
from tests.transports import Client

WRITERS, CHANGES, STARTS = 16, 2000, 10


class Control:
    """The world of one control, read with a clock that differs by some seconds."""

    def __init__(self, store: Store, skew: float) -> None:
        self._store, self._skew, self._later = store, skew, 0.0
        self._loop = asyncio.Runner()
        self.start()

    def start(self) -> None:
        """Begin anew, as after a kill."""
        self.world = World("tunnels.localhost")
        self.reader = Reader(self._store, lambda: time.time() + self._skew, self._steady)
        self._edges = EdgeRecords(self._store)
        self._timeout: float | None = None  # the first time, and at a look, it waits for all edges

    def hear(self) -> None:
        self._loop.run(self._heard())

    def start_resync(self) -> None:
        """Hear as late as all is read again, edges too."""
        self._later, self._timeout = self._later + 180, None
        self.hear()
        self.hear()

    async def _heard(self) -> None:
        news = self.reader.read_changes(self.world)
        self.reader.count_missed(self._edges.request(news.places))
        if news.is_all:
            self._edges.start_resync()
        for fact in (*news.updates, *await self._edges.collect(timeout=self._timeout)):
            self.world.apply(fact)
        self._timeout = 1.0

    def known(self) -> tuple[object, object]:
        """Return the gateways and what they carry."""
        carried = {id: it for id, it in self.world.tunnels.items() if it.gateway in self.world.gateways}
        return dict(self.world.gateways), carried

    def edges(self) -> tuple[object, object]:
        """Return the edges and backends."""
        return dict(self.world.edges), dict(self.world.backends)

    def _steady(self) -> float:
        return time.monotonic() + self._later


def change(store: Store, number: int, chance: random.Random) -> None:
    """Open a tunnel, close one, have a gateway come or go."""
    gateway = f"gw-{chance.randrange(4)}"
    if chance.random() < 0.1:
        if chance.random() < 0.5:
            store.announce_gateway(Gateway(gateway, "192.0.2.1", 4433), lease=600)
        else:
            store.withdraw_gateway(gateway)
        return
    account = f"acct_{number}"
    name = f"n{chance.randrange(20)}.{account}.tunnels.localhost"
    carried = [it for it in store.list_tunnels(gateway) if it.account == account] if chance.random() < 0.4 else []
    if carried:
        store.close(chance.choice(carried), Traffic(0, 0, 0))
        return
    try:
        grant = Grant(account, f"sshcr_{account}", ())
        store.open(Opening(grant, gateway, "ts_1", "192.0.2.9", name, f"https://{name}"), lease=600, most=100)
    except (NameTaken, TooManyTunnels):
        pass


def change_edge(store: Memory, account: str, chance: random.Random) -> None:
    """Write or delete one of an account's three backends or three edges, which lead to these or to one another."""
    backends = [f"bkdhr_{account}{number}" for number in range(2)]
    shared = f"bkdwd_{account}"
    match chance.randrange(4):
        case 0:
            answer = HttpResponse(status_code=chance.randrange(200, 500))
            value = ServedBackend(account, chance.choice(backends), answer)
            (store.keep if chance.random() < 0.8 else store.forget)(value)
        case 1:
            named = {id: chance.randrange(1, 9) for id in backends if chance.random() < 0.7}
            (store.keep if named else store.forget)(ServedBackend(account, shared, Weighted(backends=named)))
        case _:
            number, revision = chance.randrange(3), len(store.log)
            routes = [
                ServedRoute(f"edghtsrt_{place}", "path_prefix", f"/{place}", Modules(BackendModule(backend_id=id)))
                for place, id in enumerate([*backends, shared])
                if chance.random() < 0.5
            ]
            hosts = (f"e{number}.{account}.example.com:443",) if chance.random() < 0.8 else ()
            edge = ServedEdge(account, f"edghts_{account}{number}", revision, hosts, routes=tuple(routes))
            (store.keep if chance.random() < 0.8 else store.forget)(edge)


def test_two_controls_end_with_what_a_look_gives_and_have_missed_nothing() -> None:
    store = Memory()
    steady, killed = Control(store, -2.5), Control(store, 2.5)

    starts = 0

    def write(writer: int) -> None:
        chance = random.Random(writer)
        while len(store.log) < CHANGES:
            while len(store.log) > CHANGES * (starts + 1) / STARTS:
                time.sleep(0.001)  # until the control is killed once more
            if chance.random() < 0.5:
                change(store, writer, chance)
            else:
                change_edge(store, f"acct_{writer}", chance)
            time.sleep(0.001 * chance.randrange(3))

    with ThreadPoolExecutor(WRITERS) as threads:
        writing = [threads.submit(write, writer) for writer in range(WRITERS)]
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
        heard, edges = control.known(), control.edges()
        control.start_resync()
        fresh = Control(store, 0)
        fresh.start_resync()
        assert heard == control.known() == fresh.known()
        assert edges[0] == control.edges()[0] == fresh.edges()[0]
        assert control.edges() == fresh.edges()
        assert control.reader.missed == 0
    assert (starts, len(store.log) >= CHANGES) == (STARTS, True)


def test_a_change_that_the_log_does_not_tell_is_counted_and_taken_up() -> None:
    store, told = Memory(), Gateway("gw-1", "192.0.2.1", 4433)
    store.announce_gateway(told, lease=60)
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
    control.start_resync()
    assert (control.known(), control.reader.missed) == (({"gw-1": told}, {untold.id: untold}), 1)
    store.withdraw_gateway("gw-1")
    store.log.clear()
    control.start_resync()
    assert (control.known(), control.reader.missed) == (({}, {}), 2)


def test_the_certificates_of_an_account_are_read_again_where_one_is_uploaded_or_deleted() -> None:
    store, world = Memory(), World("tunnels.localhost")
    reader = Reader(store)
    reader.read_changes(world)
    store.upload(uploaded("cert_1", "acct_1", "a.tunnels.localhost"), KeyPair("chain", "key"))
    assert reader.read_changes(world).accounts == {"acct_1"}
    del store.uploaded["cert_1"]
    store.tell("acct_1", kinds.TLS_CERTIFICATES.path, "cert_1")
    news = reader.read_changes(world)
    assert news.updates == (Removed("cert_1"),)
    assert news.accounts == {"acct_1"}


def test_a_lease_that_ends_is_no_change_that_was_missed() -> None:
    store = Memory()
    store.announce_gateway(Gateway("gw-1", "192.0.2.1", 4433), lease=60)
    lapsing = Opening(Grant("acct_a", "sshcr_1", ()), "gw-1", "ts_1", "192.0.2.9", "a.tunnels.localhost", "")
    tunnel = store.open(lapsing, lease=1, most=9)
    control = Control(store, 0)
    control.hear()
    assert len(control.world.tunnels) == 1
    until(lambda: not tunnel.is_live)
    control.start_resync()
    assert (control.world.tunnels, store.online, control.reader.missed) == ({}, {}, 0)


def test_what_a_host_has_lost_is_ended_with_its_gateway(admin: Client) -> None:
    records = TableStore("local", "tunnels.localhost")
    records.announce_gateway(Gateway("gw-1", "192.0.2.1", 4433), lease=0)
    opening = Opening(
        Grant(admin.account, "sshcr_1", ()), "gw-1", "ts_1", "192.0.2.9", "a.tunnels.localhost", "https://a"
    )
    lost = records.open(opening, lease=0, most=9)
    control = Control(records, 0)
    control.hear()
    assert control.known() == ({}, {})
    assert (
        records.list_gateways(),
        records.list_tunnels("gw-1"),
        online_tunnels.remove_expired(admin.account),
    ) == (
        [],
        [],
        [],
    )
    events = table.newest(f"{admin.account}#/audit_events/edge")
    assert [(it.body["action"], it.body["resource_id"]) for it in events] == [
        ("tunnel.delete", lost.id),
        ("tunnel.create", lost.id),
    ]
