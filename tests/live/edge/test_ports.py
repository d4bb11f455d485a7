"""Ports of TCP, as an `ssh -R` asks for them and is told of them."""

import asyncio
import socket
from functools import partial
from pathlib import Path

from tests.live.edge.churn import Churn
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, listens, running, until


def names(edge: Edge) -> list[str]:
    return [tunnel.name for tunnel, _ in edge.store.tunnels()]


def test_a_client_that_asks_for_port_0_is_told_its_port(edge: Edge) -> None:
    client = edge.ssh(edge.key("acct_A"), "-R", "0:localhost:1", "-R", "0:localhost:2", terminal="-tt")
    client.wait_for("is online")
    until(lambda: len(names(edge)) == 2)
    ports = [int(name.rpartition(":")[2]) for name in names(edge)]
    assert set(ports) < set(edge.settings.tcp_ports)
    for port in ports:
        client.wait_for(f"tcp://tunnels.localhost:{port} is online.")
    client.kill()
    until(lambda: not names(edge))


def test_a_port_is_one_credential_s_which_takes_it_over(edge: Edge) -> None:
    port, key = edge.settings.tcp_ports[3], edge.key("acct_A")
    first = edge.ssh(key, "-R", f"{port}:localhost:1")
    first.wait_for(f"tcp://tunnels.localhost:{port} is online.")
    edge.ssh(edge.key("acct_B"), "-R", f"{port}:localhost:1").wait_for(
        f"tunnels.localhost:{port} is in use already: choose another port."
    )
    edge.ssh(key, "-R", f"{port}:localhost:1").wait_for("is online")
    first.wait_for("has ended: another connection with the same credential has taken its name.")
    until(lambda: names(edge) == [f"tunnels.localhost:{port}"])


@needs_envoy
def test_a_port_that_the_system_does_not_give_is_one_sentence_and_tried_again(edge: Edge) -> None:
    port, free = edge.settings.tcp_ports[4:6]
    url = f"tcp://tunnels.localhost:{port}"
    with socket.create_server(("127.0.0.1", port)):
        client = edge.ssh(edge.key("acct_A"), "-R", f"{port}:localhost:1", "-R", f"{free}:localhost:1")
        client.wait_for(refusal := f"{url} is not open: cannot bind '127.0.0.1:{port}': Address already in use.")
        until(lambda: listens(free))
    client.wait_for(f"{url} is open now.")
    assert listens(port)
    advice = f"{refusal} The edge tries again every few seconds."
    assert [line for line in client.lines if url in line] == [advice, f"{url} is open now."]


@needs_envoy
def test_a_port_is_open_when_its_client_is_told_that_it_is_online(edge: Edge) -> None:
    key, ports = edge.key("acct_A"), edge.settings.tcp_ports[6:9]
    for port in (*ports, *ports):
        client = edge.ssh(key, "-R", f"{port}:localhost:1")
        client.wait_for("is online")
        assert listens(port)
        client.kill()
        until(partial(is_closed, port))


def is_closed(port: int) -> bool:
    return not listens(port)


def test_all_ports_that_are_free_are_given_and_then_none(edge: Edge) -> None:
    ports = edge.settings.tcp_ports
    edge.store.reserve_name("acct_B", f"tunnels.localhost:{ports[0]}")
    first = edge.ssh(edge.key("acct_A"), *(f"-R0:localhost:{number}" for number in range(1, 10)))
    until(lambda: len(names(edge)) == 9)
    edge.ssh(edge.key("acct_A"), "-R", "0:localhost:1").wait_for(
        "All ports that your credential permits are in use or reserved."
    )
    assert f"tunnels.localhost:{ports[0]}" not in names(edge)
    first.kill()
    until(lambda: not names(edge))


@needs_envoy
def test_ports_that_two_accounts_open_and_close_serve_nobody_else_and_leave_nothing(tmp_path: Path) -> None:
    with running(tmp_path, with_envoy=True, ports=80, max_tunnels_per_connection=100) as edge:
        churn = Churn(edge)
        asyncio.run(churn.run(2, a_second=50))
        assert {pair for pair in churn.met if pair[1]} == {("acct_A", "acct_A"), ("acct_B", "acct_B")}
        until(lambda: not (edge.store.online or len(edge.gateway.tunnels)))
        until(
            lambda: not any(name.name.startswith("port/") for name in edge.control.discovery.catalog.names("listener"))
        )
        until(lambda: not any(map(listens, edge.settings.tcp_ports)))
