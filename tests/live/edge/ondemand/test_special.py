"""Special names beside normal ones: their handshakes, and what the records of one account do to those of another."""

import ssl
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from chalicelib.model.edges.served import ServedAuthority, ServedEdge
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.account_view import AccountView, Service
from chalicelib.model.serving.edge_plans import Plan
from edge.envoy import edge_listeners
from edge.envoy.ads.catalog import Name
from edge.envoy.resources import Changes, split_stages
from edge.link import authority
from edge.plan import names
from edge.plan.names import NamePlan
from edge.serving.special_plans import SpecialPlans
from edge.serving.special_serving import SpecialServing
from tests.edge.plan import worlds
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.ondemand.tables import Table, ask, running
from tests.live.edge.running import until

pytestmark = needs_envoy
A, B = "acct_a", "acct_b"
SERVICE = Service("tunnels.localhost", range(20000, 20100), frozenset({"*.tunnels.localhost"}))
CLIENTS = authority.make("Clients")


class Special:
    """The special names of a table. `put` replaces the edges of an account."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.serving = SpecialServing(table.settings, table.link.pem)

    def put(self, account: str, *edges: ServedEdge, pem: str = CLIENTS.pem) -> list[Plan]:
        """Serve edges with an HTTP response, and load their names on demand. Return their plans."""
        edges = tuple(replace(edge, account=account) for edge in edges)
        authorities = {"ca_1": ServedAuthority(account, "ca_1", pem)}
        certificates = {
            f"cert_{edge.id}": worlds.certificate(
                f"cert_{edge.id}", *(host.removesuffix(":443") for host in edge.hostports), account=account
            )
            for edge in edges
        }
        records = AccountRecords(
            account,
            frozenset(),
            edges={edge.id: edge for edge in edges},
            backends=self.table.records.backends,
            authorities=authorities,
            certificates=certificates,
        )
        plans = [
            edge_plan for edge in edges if (edge_plan := names.plan_edge(edge.id, records, datetime.now(UTC), SERVICE))
        ]
        special = tuple(plan for plan in plans if names.is_special_edge(plan.edge))
        for plan in plans:
            for host in plan.hosts:
                self.table.serve(NamePlan(host.name, account, host.certificate, edge=plan))
        changes = self.serving.update(SpecialPlans(special), AccountView(records, SERVICE))
        for stage in split_stages(changes):
            self.table.run(self._apply(stage))
        return plans

    async def _apply(self, changes: Changes) -> None:
        updated_names = self.table.discovery.apply(changes)
        await self.table.discovery.wait_until_settled(updated_names, timeout=5)

    def refusal(self, listener: str) -> str:
        """Return Envoy's error about a listener, or ""."""
        return self.table.discovery.catalog.refusal(Name("listener", listener))


@pytest.fixture(scope="module")
def special(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Special]:
    with running(tmp_path_factory.mktemp("edge")) as table:
        yield Special(table)


def edge(table: Table, name: str, **more: Any) -> ServedEdge:
    """Return an edge at a host below TUNNEL_DOMAIN that answers with its name. `more` is as in `worlds.edge`."""
    id = f"bkdhr_{name}"
    table.records.backends[id] = replace(worlds.response(200, name), id=id)
    return worlds.edge(worlds.route("/", id), id=f"edghts_{name}", hosts=(f"{name}.tunnels.localhost",), **more)


def visit(table: Table, host: str, **client: Any) -> tuple[int, str]:
    """Return the answer to a client with a certificate or a TLS version."""
    with table.connect(host, **client) as connection:
        return ask(connection, host)


def test_mutual_tls_admits_only_clients_with_a_certificate(special: Special) -> None:
    table, host = special.table, "mutual.tunnels.localhost"
    special.put(A, edge(table, "mutual", authorities=["ca_1"]))
    good, bad = CLIENTS.issue("client"), authority.make("Others").issue("client")
    assert visit(table, host, pair=good) == (200, "mutual")
    for pair in (None, bad):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            visit(table, host, pair=pair)


@pytest.mark.parametrize("version", ["1.1", "1.3"])
def test_another_tls_version_is_required_or_admitted(special: Special, version: str) -> None:
    table, name = special.table, f"v{version.replace('.', '-')}"
    special.put(A, edge(table, name, version=version))
    host = f"{name}.tunnels.localhost"
    assert visit(table, host, version="1.3") == (200, name)
    if version == "1.3":
        with pytest.raises(ssl.SSLError):
            visit(table, host, version="1.2")
    else:
        assert visit(table, host, version=version) == (200, name)
        with pytest.raises(ssl.SSLError):
            visit(table, "mutual.tunnels.localhost", version=version)


def test_normal_names_beside_special_ones_are_served(special: Special) -> None:
    table = special.table
    table.answer("normal.example.com", "normal")
    assert visit(table, "normal.example.com") == (200, "normal")


def test_an_authority_that_envoy_rejects_closes_only_its_owners_name(special: Special) -> None:
    table = special.table
    special.put(A, edge(table, "mutual", authorities=["ca_1"]))
    (plan,) = special.put(B, edge(table, "wrong", authorities=["ca_1"]), pem="of another form")
    assert "trusted" in special.refusal(edge_listeners.on_demand_listener_name(plan)).lower()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        visit(table, "wrong.tunnels.localhost", pair=CLIENTS.issue("client"))
    assert visit(table, "mutual.tunnels.localhost", pair=CLIENTS.issue("client")) == (200, "mutual")


def test_a_name_that_becomes_special_refuses_open_connections(special: Special) -> None:
    table, host = special.table, "stricter.tunnels.localhost"
    special.put(A, edge(table, "stricter"))
    with table.connect(host) as connection:
        assert ask(connection, host) == (200, "stricter")
        special.put(A, edge(table, "stricter", authorities=["ca_1"]))
        assert table.send(table.names[host]) == ""
        until(lambda: ask(connection, host)[0] == 421, within=5)
    assert visit(table, host, pair=CLIENTS.issue("client")) == (200, "stricter")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        visit(table, host)


def test_a_name_that_is_special_no_more_needs_no_certificate(special: Special) -> None:
    table, host = special.table, "looser.tunnels.localhost"
    special.put(A, edge(table, "looser", authorities=["ca_1"]))
    assert visit(table, host, pair=CLIENTS.issue("client")) == (200, "looser")
    special.put(A, edge(table, "looser"))
    assert table.send(table.names[host]) == ""
    assert visit(table, host) == (200, "looser")
