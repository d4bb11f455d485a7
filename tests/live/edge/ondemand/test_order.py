"""Loaded names are changed, rejected and removed, and their visitors notice as little as possible."""

import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from envoy.config.route.v3.scoped_route_pb2 import ScopedRouteConfiguration

from chalicelib.model.serving import pages
from edge.envoy.names import https_listener
from edge.envoy.resources import encode
from edge.link.authority import KeyPair
from edge.serving.order import NameResources
from tests import openssl
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.ondemand.gateways import gateway
from tests.live.edge.ondemand.tables import UPGRADE, Table, ask, running
from tests.live.edge.running import until

pytestmark = needs_envoy


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    with running(tmp_path_factory.mktemp("edge")) as table:
        yield table


def bad_pair(name: str) -> KeyPair:
    """Return a certificate that Envoy rejects, since its key is too short."""
    weak_pair = openssl.issue(f"/CN={name}", "rsa-1024", extensions=(f"subjectAltName=DNS:{name}",))
    return KeyPair(weak_pair.certificate, weak_pair.key)


def with_bad_scope(resources: NameResources) -> NameResources:
    """Return resources with a scope that Envoy rejects."""
    assert resources.scope
    scope = ScopedRouteConfiguration.FromString(resources.scope.encoded)
    (host, *_) = scope.route_configuration.virtual_hosts
    host.routes[0].match.safe_regex.regex = "("
    return replace(resources, scope=encode(scope))


def test_many_visitors_of_a_cold_name_cause_one_request(table: Table) -> None:
    table.answer("crowd.example.com", "crowd")
    with ThreadPoolExecutor(50) as threads:
        responses = list(threads.map(lambda _: table.visit("crowd.example.com"), range(100)))
    assert responses == [(200, "crowd")] * 100
    assert table.requests["crowd.example.com"] == 1


def test_a_certificate_that_envoy_rejects_refuses_its_visitors_at_once(table: Table) -> None:
    plan = table.plan("weak.example.com", "weak")
    table.serve(plan, bad_pair("weak.example.com"))
    for _ in range(2):
        start = time.monotonic()
        with pytest.raises(ssl.SSLError, match="handshake failure"):
            table.visit("weak.example.com")
        assert time.monotonic() - start < 1
        until(lambda: "RSA" in table.errors.pop("weak.example.com", ""))
        until(lambda: table.is_idle)  # a visit before the removal would be answered by it, without a request
    assert table.send(table.serve(plan)) == ""
    assert table.visit("weak.example.com") == (200, "weak")


def test_a_rejected_change_of_a_certificate_leaves_the_earlier_one(table: Table) -> None:
    plan = table.plan("renewed.example.com", "renewed")
    table.serve(plan)
    assert table.visit("renewed.example.com") == (200, "renewed")
    assert "RSA" in table.send(table.serve(plan, bad_pair("renewed.example.com")))
    assert [table.visit("renewed.example.com") for _ in range(2)] == [(200, "renewed")] * 2
    assert table.requests["renewed.example.com"] == 1


def test_a_scope_that_envoy_rejects_refuses_only_its_own_visitors(table: Table) -> None:
    good, bad = table.answer("good.example.com", "good"), table.answer("bad.example.com", "bad")
    table.names["bad.example.com"] = with_bad_scope(bad)
    with ThreadPoolExecutor(2) as threads:
        visit = threads.submit(table.visit, "bad.example.com")
        assert threads.submit(table.visit, "good.example.com").result() == (200, "good")
        with pytest.raises(ssl.SSLError, match="handshake failure"):
            visit.result()
    until(lambda: "missing )" in table.errors.get("bad.example.com", ""))
    assert "missing )" in table.send(with_bad_scope(good))
    assert table.visit("good.example.com") == (200, "good")


def test_without_its_secret_an_open_connection_goes_on_and_a_new_one_requests_it(table: Table) -> None:
    table.answer("idle.example.com", "idle")
    with table.connect("idle.example.com") as connection:
        assert ask(connection, "idle.example.com") == (200, "idle")
        table.run(table.sender.remove_secrets(["idle.example.com"]))
        assert ask(connection, "idle.example.com") == (200, "idle")

        def is_requested() -> bool:  # Envoy's workers forget the secret a moment after its main thread
            assert table.visit("idle.example.com") == (200, "idle")
            return table.requests["idle.example.com"] == 2

        until(is_requested)


def test_a_withdrawn_name_is_refused_and_answers_404_on_open_connections(table: Table) -> None:
    table.answer("gone.example.com", "gone")
    with table.connect("gone.example.com") as connection:
        assert ask(connection, "gone.example.com") == (200, "gone")
        del table.names["gone.example.com"]
        table.run(table.sender.withdraw(["gone.example.com"]))
        assert ask(connection, "gone.example.com") == (404, pages.NO_TUNNEL)
    with pytest.raises(ssl.SSLError, match="handshake failure"):
        table.visit("gone.example.com")
    until(lambda: "answer/bkdhr_gone.example.com" not in table.clusters())


def test_a_removed_scope_ends_neither_a_running_request_nor_a_websocket(table: Table) -> None:
    name = "busy.tunnels.localhost"
    with gateway(table):
        table.serve(table.tunnel(name))
        with table.connect(name) as slow, table.connect(name) as socket:
            slow.sendall(f"GET /slow HTTP/1.1\r\nhost: {name}\r\n\r\n".encode())
            socket.sendall(f"GET /socket HTTP/1.1\r\nhost: {name}\r\n{UPGRADE}\r\n\r\n".encode())
            assert b" 101 " in socket.recv(1000)
            table.run(table.sender.withdraw([name]))
            assert slow.recv(1000).startswith(b"HTTP/1.1 200 ")
            socket.sendall(b"still here")
            assert socket.recv(1000) == b"still here"


def test_a_cluster_stays_until_no_name_uses_it(table: Table) -> None:
    names = ["left.tunnels.localhost", "right.tunnels.localhost"]
    with gateway(table):
        for name in names:
            table.serve(table.tunnel(name))
            assert table.visit(name)[0] == 200
        table.run(table.sender.withdraw(names[:1]))
        assert table.visit(names[1])[0] == 200
        assert "gw-1" in table.clusters()
        table.run(table.sender.withdraw(names[1:]))
        until(lambda: "gw-1" not in table.clusters())


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
def test_a_session_is_not_resumed(table: Table, protocol: str) -> None:
    table.answer("session.example.com", "session")
    with table.connect("session.example.com", protocol) as first:
        if protocol == "http/1.1":
            assert ask(first, "session.example.com") == (200, "session")
        assert (first.session is None or not first.session.has_ticket, first.session_reused) == (True, False)


def test_a_stricter_version_closes_connections_that_do_not_meet_it(table: Table) -> None:
    name = "strict.example.com"
    table.answer(name, "before")
    with table.connect(name, version="1.2") as connection:
        assert ask(connection, name) == (200, "before")
        table.publish(https_listener.build_special_part(name, "1.3", table.settings))
        assert table.send(table.answer(name, "after", version="1.3")) == ""
        assert ask(connection, name) == (421, pages.MISDIRECTED)
    with pytest.raises(ssl.SSLError):
        table.visit(name, version="1.2")
    assert table.visit(name, version="1.3") == (200, "after")
    assert table.requests[name] == 1
