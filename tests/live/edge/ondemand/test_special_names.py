"""Names with special handshakes have entries in the matcher; their certificates are still requested on demand."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from chalicelib.model.serving import pages
from chalicelib.model.serving.edge_plans import Plan, PlannedHost
from chalicelib.model.serving.streams import Destinations
from edge.envoy import clusters, edge_listeners, listeners
from edge.envoy.names import https_listener
from edge.plan.names import NamePlan
from tests.edge.plan import worlds
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.ondemand.gateways import gateway
from tests.live.edge.ondemand.tables import GATEWAY, A, Table, ask, running
from tests.live.edge.running import until

pytestmark = needs_envoy
ORDER = ["1.0", "1.1", "1.2", "1.3"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    with running(tmp_path_factory.mktemp("edge")) as table:
        yield table


def is_refused(table: Table, name: str, **more: Any) -> bool:
    with suppress(ssl.SSLError, ConnectionError):
        table.visit(name, **more)
        return False
    return True


@pytest.mark.parametrize("least", ["1.0", "1.1", "1.3"])
def test_each_version_has_a_filter_chain(table: Table, least: str) -> None:
    name = f"v{least[-1]}.example.com"
    table.answer(name, least, version=least)
    table.publish(https_listener.build_special_part(name, least, table.settings))
    versions = [version for version in ORDER if not is_refused(table, name, version=version)]
    assert versions == ORDER[ORDER.index(least) :]
    assert table.requests[name] == 1


def test_other_names_accept_versions_from_1_2_on(table: Table) -> None:
    table.answer("normal.example.com", "normal")
    assert [version for version in ORDER if not is_refused(table, "normal.example.com", version=version)] == [
        "1.2",
        "1.3",
    ]


def test_a_wildcard_with_another_version_leaves_a_name_below_it(table: Table) -> None:
    plan = table.plan("one.old.example.com", "old", "*.old.example.com", version="1.0")
    table.serve(plan)
    table.answer("own.old.example.com", "own")
    table.publish(
        https_listener.build_special_part("*.old.example.com", "1.0", table.settings),
        https_listener.build_special_part("own.old.example.com", "1.2", table.settings),
    )
    assert table.visit("one.old.example.com", version="1.0") == (200, "old")
    assert is_refused(table, "own.old.example.com", version="1.0")
    assert table.visit("own.old.example.com") == (200, "own")


def test_a_name_moves_to_another_chain_and_back(table: Table) -> None:
    name = "moving.example.com"
    table.answer(name, "normal")
    assert table.visit(name) == (200, "normal")
    part = https_listener.build_special_part(name, "1.3", table.settings)
    table.publish(part)
    assert table.send(table.answer(name, "special", version="1.3")) == ""
    assert table.visit(name) == (200, "special")
    assert table.send(table.answer(name, "again")) == ""
    table.remove(part.key)
    assert table.visit(name, version="1.2") == (200, "again")


def test_mutual_tls_accepts_only_clients_of_its_authorities(table: Table) -> None:
    name = "mutual.example.com"
    plan = table.plan(name, "known", authorities=["ca_1"])
    table.serve(plan)
    assert plan.edge
    listener = edge_listeners.build_on_demand_listener(plan.edge, table.settings)
    table.publish(listener, clusters.build_listener_cluster(name, listener.key.name))
    table.publish(https_listener.build_special_part(name, https_listener.INTERNAL, table.settings))
    client = table.authority.issue("client")
    assert [table.visit(name, pair=client) for _ in range(2)] == [(200, "known")] * 2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        table.visit(name)
    assert table.requests[name] == 1


def test_a_connection_from_before_mutual_tls_is_closed(table: Table) -> None:
    name = "later.example.com"
    table.answer(name, "open")
    with table.connect(name) as connection:
        assert ask(connection, name) == (200, "open")
        plan = table.plan(name, "known", authorities=["ca_1"])
        assert plan.edge
        listener = edge_listeners.build_on_demand_listener(plan.edge, table.settings)
        table.publish(listener, clusters.build_listener_cluster(name, listener.key.name))
        table.publish(https_listener.build_special_part(name, https_listener.INTERNAL, table.settings))
        assert table.send(table.serve(plan)) == ""
        assert ask(connection, name) == (421, pages.MISDIRECTED)
        assert ask(connection, name, "/", f"x-envoy-scope: {plan.edge.digest}/{name}") == (421, pages.MISDIRECTED)
    assert table.visit(name, pair=table.authority.issue("client")) == (200, "known")


def test_challenges_are_refused_at_normal_and_at_unreserved_names(table: Table) -> None:
    for name in ("normal.tunnels.localhost", "special.tunnels.localhost", "reserved.tunnels.localhost"):
        table.answer(name, name, version="1.2" if name.startswith("normal") else "1.0")
    table.publish(
        https_listener.build_unreserved_special_part("special.tunnels.localhost", "1.0", table.settings),
        https_listener.build_special_part("reserved.tunnels.localhost", "1.0", table.settings),
    )
    names = []
    for name in ("normal", "special", "reserved"):
        host = f"{name}.tunnels.localhost"
        try:
            table.connect(host, "acme-tls/1").close()
        except (ssl.SSLError, ConnectionError):
            names.append(name)
        assert table.visit(host)[0] == 200
    assert names == ["normal", "special"]


def test_a_listener_that_envoy_rejects_closes_only_its_own_name(table: Table) -> None:
    plan = table.plan("broken.example.com", "broken", authorities=["ca_1"])
    assert plan.edge
    broken = edge_listeners.build_on_demand_listener(replace(plan.edge, trusted=("no certificate",)), table.settings)
    table.publish(broken, clusters.build_listener_cluster("broken.example.com", broken.key.name))
    table.publish(https_listener.build_special_part("broken.example.com", https_listener.INTERNAL, table.settings))
    assert is_refused(table, "broken.example.com")
    table.answer("beside.example.com", "beside")
    assert table.visit("beside.example.com") == (200, "beside")


@pytest.mark.parametrize("host", ["*.bytes.example.com", "bytes.example.net"])
def test_a_tls_edge_ends_tls_with_a_certificate_on_demand(table: Table, host: str) -> None:
    name = host.replace("*", "any")
    hosts = (PlannedHost(host, "live", certificate="cert_1"),)
    plan = Plan(worlds.edge(id="edgtls_1", hosts=[host]), hosts, destinations=Destinations((("bkdtg_1", 1),)))
    with gateway(table):
        members = [(worlds.tunnel("tn_bytes"), table.records.gateways[GATEWAY])]
        cluster = clusters.build_stream_cluster(plan, [("bkdtg_1", 1, members)], table.link.pem, table.settings)
        listener = edge_listeners.build_on_demand_listener(plan, table.settings)
        table.publish(cluster, listener, clusters.build_listener_cluster(host, listener.key.name))
        table.publish(https_listener.build_special_part(host, https_listener.INTERNAL, table.settings))
        assert table.serve(NamePlan(name, A, "cert_1", edge=plan)).scope is None
        status, body = table.visit(name)
        assert (status, body.split("\n")[0], table.requests[name]) == (200, "tn_bytes", 1)


@pytest.mark.parametrize("host", ["*.passed.example.com", "passed.example.net"])
def test_tls_is_passed_through_without_a_certificate(table: Table, host: str) -> None:
    name = host.replace("*", "any")
    tunnel = worlds.tunnel("tn_passed", name=host, proto="tls")
    with gateway(table) as visitors:
        cluster = clusters.build_bytes_cluster(table.records.gateways[GATEWAY], table.link.pem, table.settings)
        table.run(table.sender.hold("tunnel/tn_passed", [cluster]))
        listener = listeners.build_tunnel_listener(tunnel, table.settings)
        table.publish(listener, clusters.build_listener_cluster(host, listener.key.name))
        table.publish(https_listener.build_special_part(host, https_listener.INTERNAL, table.settings))
        raw = socket.create_connection(("127.0.0.1", table.settings.edge_port), 0.5)
        with raw, pytest.raises(TimeoutError):  # the tunnel reads the handshake and does not answer
            table.wrap(raw, name)
        until(lambda: bool(visitors))
        assert (len(visitors), table.requests[name]) == (1, 0)
        table.run(table.sender.hold("tunnel/tn_passed", []))
        assert "gw-1/bytes" not in table.clusters()
