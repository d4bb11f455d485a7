"""Control goes away and comes back, and connections grow old, while visitors are served."""

import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from edge.envoy.ads.catalog import Name
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.ondemand.gateways import gateway
from tests.live.edge.ondemand.tables import UPGRADE, Table, ask, envoy, running, serving, settings_in
from tests.live.edge.running import until

pytestmark = needs_envoy
NAMES = ["one.example.com", "two.example.com"]


def test_a_new_control_keeps_what_envoy_has_until_it_has_loaded_that_again(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    with serving(settings) as first, envoy(first):
        for name in NAMES:
            first.answer(name, name)
            assert first.visit(name) == (200, name)
        first.stop()
        assert first.visit(NAMES[0]) == (200, NAMES[0])
        with ThreadPoolExecutor(1) as threads:
            cold = threads.submit(first.visit, "cold.example.com")
            until(lambda: first.stats("listener.https.downstream_cx_active") > 0)
            with serving(settings, like=first, is_complete=False) as second:
                second.answer("cold.example.com", "cold")
                assert cold.result() == (200, "cold")
                kinds = {
                    kind: {resource.name for resource in second.envoy_names if resource.kind == kind}
                    for kind in ("secret", "scope")
                }
                assert kinds["scope"] == {*NAMES}
                assert kinds["secret"] == {*NAMES}
                assert [second.visit(name) for name in NAMES] == [(200, name) for name in NAMES]
                second.answer(NAMES[0], "again")
                assert second.send(second.names[NAMES[0]]) == ""
                second.loop.call_soon_threadsafe(second.discovery.complete)
                until(lambda: f"answer/bkdhr_{NAMES[1]}" not in second.clusters())
                assert second.visit(NAMES[0]) == (200, "again")
                with pytest.raises(ssl.SSLError, match="handshake failure"):
                    second.visit(NAMES[1])
                assert second.requests == {"cold.example.com": 1, NAMES[1]: 1}
                assert Name("scope", NAMES[1]) in second.envoy_names


def test_two_envoys_at_the_same_ports_serve_what_either_has_requested(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    with running(tmp_path / "first") as table:
        table.answer("early.example.com", "early")
        assert table.visit("early.example.com") == (200, "early")
        with envoy(table, tmp_path / "second"):
            table.answer("late.example.com", "late")
            for name in ("early", "late"):
                assert {table.visit(f"{name}.example.com") for _ in range(40)} == {(200, name)}
            assert table.requests == {"early.example.com": 2, "late.example.com": 2}
            assert table.send(table.answer("late.example.com", "later")) == ""
            assert {table.visit("late.example.com") for _ in range(20)} == {(200, "later")}
            table.run(table.sender.withdraw(["late.example.com"]))
            del table.names["late.example.com"]
            for _ in range(10):
                with pytest.raises(ssl.SSLError, match="handshake failure"):
                    table.visit("late.example.com")


def test_an_old_connection_ends_after_its_request_and_a_websocket_goes_on(tmp_path: Path) -> None:
    name = "old.tunnels.localhost"
    with running(tmp_path, max_connection_duration=1) as table, gateway(table):
        table.serve(table.tunnel(name))
        assert table.visit(name)[0] == 200
        with table.connect(name) as slow, table.connect(name) as upgraded, table.connect(name) as idle:
            assert ask(idle, name)[0] == 200
            upgraded.sendall(f"GET /socket HTTP/1.1\r\nhost: {name}\r\n{UPGRADE}\r\n\r\n".encode())
            assert b" 101 " in upgraded.recv(1000)
            status, body = ask(slow, name, "/slow")
            assert (status, body.split("\n")[0]) == (200, "tn_old")
            assert idle.recv(1) == b""
            for connection in (slow, upgraded):
                connection.settimeout(8)
            assert slow.recv(1) == b""
            upgraded.sendall(b"still here")
            assert upgraded.recv(1000) == b"still here"


def test_behind_trusted_proxies_the_visitor_of_a_cold_name_is_the_one_they_name(tmp_path: Path) -> None:
    with running(tmp_path, proxies=("127.0.0.9/32",)) as table, gateway(table):
        name = "behind.tunnels.localhost"
        table.serve(table.tunnel(name))
        _, body = _visit_by_proxy(table, name, "127.0.0.9")
        assert "x-forwarded-for: 192.0.2.7" in body.lower()
        with pytest.raises((ssl.SSLError, ConnectionError)):
            _visit_by_proxy(table, name, "127.0.0.1")


def _visit_by_proxy(table: Table, name: str, proxy: str) -> tuple[int, str]:
    raw = socket.create_connection(("127.0.0.1", table.settings.edge_port), 10, (proxy, 0))
    raw.sendall(b"PROXY TCP4 192.0.2.7 192.0.2.1 1234 443\r\n")
    with table.wrap(raw, name) as connection:
        return ask(connection, name)
