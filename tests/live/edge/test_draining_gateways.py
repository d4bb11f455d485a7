"""SIGTERM to a gateway of a fleet, under visitors: no request fails, and open downloads are whole."""

import json
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tests.conftest import free_port, serve
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.fleet import Balancer, ClientLoop, gateways
from tests.live.edge.processes import Started, credential, start_edge
from tests.live.edge.running import Ssh, ssh_command, until, upstream
from tests.live.edge.visitors import Address, Download, SlowUpstream, Visitors

pytestmark = needs_envoy
SENTENCE = "This gateway restarts: connect again."


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """make run, a credential, and the edge."""
    folder = tmp_path_factory.mktemp("local")
    ports = {name: str(free_port()) for name in ("SSH_PORT", "EDGE_PORT", "HTTP_PORT", "METRICS_PORT")}
    run, api = serve(folder)
    try:
        key = credential(api, "key")
        edge = start_edge(api, {**ports, "LOCAL_DIR": str(folder)})
        try:
            yield Started(api, ports, edge, key)
        finally:
            edge.send_signal(signal.SIGINT)
            edge.wait(20)
    finally:
        run.send_signal(signal.SIGINT)
        run.wait(30)


def address(started: Started, name: str) -> Address:
    authority = started.api.local / "edge" / "authority.crt"
    return Address(f"{name}.tunnels.localhost", int(started.ports["EDGE_PORT"]), authority)


@contextmanager
def looping(started: Started, name: str, ports: list[int], port: int, labels: str = "") -> Iterator[ClientLoop]:
    """Run a client in a loop behind a balancer, until a name is served. With labels, it opens a backend tunnel."""
    with closing(Balancer(ports)) as balancer:
        client = ClientLoop(balancer.port, started.key, "-R", f"{labels or name}:80:127.0.0.1:{port}")
        try:
            until(lambda: started.visit(name) == "200", within=15)
            yield client
        finally:
            client.end()


def test_no_request_fails_while_a_gateway_drains_and_its_client_connects_to_another(started: Started) -> None:
    with (
        upstream(SlowUpstream) as port,
        gateways(started.api, started.api.local, 2) as (first, second),
        looping(started, "drained", [first.ssh_port, second.ssh_port], port) as client,
        Visitors(address(started, "drained"), kept=20, fresh=5) as visitors,
    ):
        until(lambda: visitors.done > 100)
        download = Download(address(started, "drained"), "/slow/60")
        first.process.send_signal(signal.SIGTERM)
        until(lambda: not first.is_ready(), within=2)
        assert first.process.wait(45) == 0
        assert download.wait(1) == 60 << 10
        count = visitors.done
        until(lambda: visitors.done > count + 100)
    assert visitors.failures == []
    assert visitors.slowest < 5
    assert any(SENTENCE in line for line in client.said), client.said


def test_an_endless_download_ends_with_the_time_of_a_drain(started: Started) -> None:
    bounds = {"DRAIN_TIMEOUT": "3"}
    with (
        upstream(SlowUpstream) as port,
        gateways(started.api, started.api.local, 2, **bounds) as (first, second),
        looping(started, "endless", [first.ssh_port, second.ssh_port], port),
    ):
        Download(address(started, "endless"), "/endless")
        first.process.send_signal(signal.SIGTERM)
        assert first.process.wait(20) == 0
        until(lambda: started.visit("endless") == "200", within=5)


def test_no_request_to_a_group_on_two_gateways_fails_while_one_of_them_drains(started: Started) -> None:
    api = started.api.client()
    group = api.create("/backends/tunnel_group", {"labels": {"app": "fleet"}})["id"]
    path = f"/edges/https/{api.create('/edges/https', {'hostports': ['group.tunnels.localhost:443']})['id']}"
    api.create(f"{path}/routes", {"match_type": "path_prefix", "match": "/", "backend": {"backend_id": group}})
    with (
        upstream(SlowUpstream) as port,
        gateways(started.api, started.api.local, 2) as (first, second),
        looping(started, "group", [second.ssh_port], port, "app=fleet"),
        looping(started, "group", [first.ssh_port, second.ssh_port], port, "app=fleet") as client,
    ):
        until(lambda: len(api.get(f"/backends/tunnel_group/{group}").json["tunnels"]) == 2)
        with Visitors(address(started, "group"), kept=20, fresh=5) as visitors:
            until(lambda: visitors.done > 100)
            first.process.send_signal(signal.SIGTERM)
            assert first.process.wait(45) == 0
            count = visitors.done
            until(lambda: visitors.done > count + 100)
        assert any(SENTENCE in line for line in client.said), client.said
    assert visitors.failures == []
    assert visitors.slowest < 5
    api.delete(path)


def test_a_client_behind_a_proxy_has_its_own_address_in_events(started: Started) -> None:
    api = started.api.client()
    header = b"PROXY TCP4 203.0.113.7 127.0.0.1 50000 22\r\n"
    with gateways(started.api, started.api.local, 1, SSH_PROXY_PROTOCOL_FROM="127.0.0.0/8") as (gateway,):
        with closing(Balancer([gateway.ssh_port], header)) as balancer:
            command = ssh_command(balancer.port, started.key, "-tt", "-R", "behind:80:localhost:1", "127.0.0.1")
            client = Ssh(command)
            client.says("is online")
            events = api.get("/audit_events?action=tunnel.create").json["audit_events"]
            assert "203.0.113.7" in json.dumps(events[0])
            client.kill()
        direct = Ssh(ssh_command(gateway.ssh_port, started.key, "-R", "direct:80:localhost:1", "127.0.0.1"))
        assert direct.ends() == 255
