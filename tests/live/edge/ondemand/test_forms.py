"""A name becomes special and normal again while it is visited, on open and on new connections."""

import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from chalicelib import ids
from chalicelib.model.edges.backends import HttpResponse
from chalicelib.model.edges.modules import BackendModule, MutualTlsModule, TlsTerminationModule
from chalicelib.model.edges.served import Modules, ServedAuthority, ServedBackend, ServedEdge, ServedRoute
from edge.link import authority
from edge.link.authority import Authority
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.ondemand.tables import ask
from tests.live.edge.running import Edge, until

pytestmark = needs_envoy
ACCOUNT = "acct_forms"


@dataclass
class Name:
    """A name of an edge, and visitors who know it. All present a certificate of `clients` unless they are strangers."""

    edge: Edge
    host: str
    record: ServedEdge
    clients: Authority

    def connect(self, *, is_stranger: bool = False, version: str = "") -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=self.edge.settings.directory / "authority.crt")
        if not is_stranger:
            authority.load_into(context, self.clients.issue("client"))
        if version:
            context.maximum_version = ssl.TLSVersion[version]
        raw = socket.create_connection(("127.0.0.1", self.edge.settings.edge_port), 10)
        return context.wrap_socket(raw, server_hostname=self.host)

    def visit(self, **how: object) -> str:
        """Return the status of a new connection, "" if it is refused."""
        try:
            with self.connect(**how) as connection:  # type: ignore[arg-type]
                return str(ask(connection, self.host)[0])
        except (OSError, ValueError):
            return ""

    def change(self, modules: Modules) -> None:
        self.record = replace(self.record, revision=self.record.revision + 1, modules=modules)
        self.edge.store.keep(self.record)

    @contextmanager
    def visited(self, **how: object) -> Iterator[Counter[str]]:
        """Visit the name all the time. Yield the results."""
        met, is_over = Counter[str](), threading.Event()

        def visit() -> None:
            while not is_over.is_set():
                met[self.visit(**how)] += 1

        thread = threading.Thread(target=visit)
        thread.start()
        try:
            yield met
        finally:
            is_over.set()
            thread.join()


@pytest.fixture
def name(edge: Edge) -> Name:
    host = f"{ids.new('x').lower().replace('_', '-')}.{edge.settings.tunnel_domain}"
    clients, answer = authority.make("clients"), ServedBackend(ACCOUNT, ids.new("bkdhr"), HttpResponse(body="in"))
    route = ServedRoute(ids.new("edghtsrt"), "path_prefix", "/", Modules(BackendModule(backend_id=answer.id)))
    record = ServedEdge(ACCOUNT, ids.new("edghts"), 1, (f"{host}:443",), routes=(route,))
    made = Name(edge, host, record, clients)
    edge.store.keep(answer)
    edge.store.keep(record)
    until(lambda: made.visit() == "200")
    return made


@pytest.fixture
def mutual(name: Name) -> Modules:
    trusted = ServedAuthority(ACCOUNT, ids.new("ca"), name.clients.pem)
    name.edge.store.keep(trusted)
    return Modules(mutual_tls=MutualTlsModule(certificate_authority_ids=[trusted.id]))


def test_mutual_tls_closes_open_connections_and_strangers_at_once(name: Name, mutual: Modules) -> None:
    with name.connect(is_stranger=True) as before, name.visited() as known, name.visited(is_stranger=True) as strangers:
        assert ask(before, name.host)[0] == 200
        name.change(mutual)
        until(lambda: strangers[""] > 0)
        refused = strangers["200"]
        assert ask(before, name.host)[0] == 421
        until(lambda: strangers[""] > 20)
        assert strangers["200"] == refused
    assert known.keys() <= {"200", "421"}
    assert strangers.keys() <= {"200", "421", ""}


def test_without_mutual_tls_visitors_find_the_name_all_the_time(name: Name, mutual: Modules) -> None:
    name.change(mutual)
    until(lambda: not name.visit(is_stranger=True))
    with name.connect() as before, name.visited() as known:
        assert ask(before, name.host)[0] == 200
        name.change(Modules())
        until(lambda: name.visit(is_stranger=True) == "200")
        name.edge.settle()
        assert ask(before, name.host)[0] == 421
    assert known.keys() <= {"200", "421"}
    assert known["421"] <= 1  # on a connection from before the change


def test_a_special_name_that_the_list_lacks_is_added_by_its_first_visitor(name: Name, mutual: Modules) -> None:
    name.edge.settle()
    name.edge.store.unlisted.add(name.record.id)  # an earlier version of the API made the change
    name.change(mutual)
    until(lambda: name.visit() == "200" and not name.visit(is_stranger=True))
    with name.visited() as known, name.visited(is_stranger=True) as strangers:
        until(lambda: min(known.total(), strangers.total()) > 20)
    assert ({*known}, {*strangers}) == ({"200"}, {""})


@pytest.mark.parametrize("version", ["1.1", "1.3"])
def test_another_tls_version_moves_a_name_and_back(name: Name, version: str) -> None:
    with name.connect() as before, name.visited() as visits:
        assert ask(before, name.host)[0] == 200
        name.change(Modules(tls_termination=TlsTerminationModule(min_version=version)))
        until(lambda: ask(before, name.host)[0] == 421)
        if version == "1.3":
            until(lambda: not name.visit(version="TLSv1_2"))
        name.edge.settle()
        name.change(Modules())
        name.edge.settle()
        until(lambda: name.visit(version="TLSv1_2") == "200")
    assert visits.keys() <= {"200", "421"}
