"""Gateways of a fleet beside a whole edge: drained under visitors, killed, and stopped for longer than their lease."""

import json
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from tests.live.edge.conftest import needs_envoy
from tests.live.edge.fleet import Balancer, ClientLoop, GatewayProcess, gateways
from tests.live.edge.processes import WITHOUT_SIGN_IN, Platform, credential, run_edge
from tests.live.edge.running import Key, Ssh, ssh_command, until, upstream
from tests.live.edge.visitors import Download, Http2Visitor, SlowUpstream, Visitors, tls_upstream

pytestmark = needs_envoy
_LEASE = "6"
SENTENCE = "This gateway restarts: connect again."


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """Run an API, an edge beside it, and a credential."""
    with run_edge(tmp_path_factory.mktemp("local"), **WITHOUT_SIGN_IN) as platform:
        yield platform


@pytest.fixture(scope="module")
def second(platform: Platform) -> Iterator[GatewayProcess]:
    """Run the gateway to which the clients of another one connect when that ends."""
    with gateways(platform.api, platform.api.local, 1) as (gateway,):
        yield gateway


@contextmanager
def looping(
    platform: Platform, name: str, ports: list[int], port: int, *more: str, labels: str = ""
) -> Iterator[ClientLoop]:
    """Run a client in a loop behind a balancer, until a name is served. With labels, it opens a backend tunnel."""
    with closing(Balancer(ports)) as balancer:
        client = ClientLoop(balancer.port, platform.key, "-R", f"{labels or name}:80:127.0.0.1:{port}", *more)
        try:
            until(lambda: platform.visit(name) == "200", within=15)
            yield client
        finally:
            client.end()


def test_no_request_fails_while_a_gateway_drains_and_its_client_connects_to_another(
    platform: Platform, second: GatewayProcess
) -> None:
    with (
        upstream(SlowUpstream) as port,
        tls_upstream("whole.tunnels.localhost", platform.api.local) as (tls_port, tls_authority),
        gateways(platform.api, platform.api.local / "first", 1) as (first,),
        looping(
            platform, "drained", [first.ssh_port, second.ssh_port], port, "-R", f"whole:443:127.0.0.1:{tls_port}"
        ) as client,
    ):
        tls_address = replace(platform.address("whole"), authority=tls_authority)
        until(tls_address.answers)
        with (
            Visitors(platform.address("drained"), persistent=20, fresh=5) as visitors,
            Visitors(tls_address, persistent=0, fresh=3) as of_bytes,
            Http2Visitor(platform.address("drained")) as http2,
        ):
            until(lambda: visitors.done > 100 and of_bytes.done > 10)
            download = Download(platform.address("drained"), "/slow/60")
            first.process.send_signal(signal.SIGTERM)
            until(lambda: not first.is_ready(), within=5)
            assert first.process.wait(45) == 0
            assert download.wait(1) == 60 << 10
            count = visitors.done
            until(lambda: visitors.done > count + 100)
    assert (visitors.failures, of_bytes.failures, http2.failures) == ([], [], []), platform.list_unanswered()
    assert http2.done > 20
    assert max(visitors.slowest, of_bytes.slowest) < 5
    assert any(SENTENCE in line for line in client.lines), client.lines


def test_an_endless_download_ends_with_the_time_of_a_drain(platform: Platform, second: GatewayProcess) -> None:
    bounds = {"DRAIN_TIMEOUT": "3"}
    with (
        upstream(SlowUpstream) as port,
        gateways(platform.api, platform.api.local / "first", 1, **bounds) as (first,),
        looping(platform, "endless", [first.ssh_port, second.ssh_port], port),
    ):
        Download(platform.address("endless"), "/endless")
        first.process.send_signal(signal.SIGTERM)
        assert first.process.wait(20) == 0
        until(lambda: platform.visit("endless") == "200", within=5)


def test_no_request_to_a_group_on_two_gateways_fails_while_one_of_them_drains(
    platform: Platform, second: GatewayProcess
) -> None:
    api = platform.api.client()
    group = api.create("/backends/tunnel_group", {"labels": {"app": "fleet"}})["id"]
    path = f"/edges/https/{api.create('/edges/https', {'hostports': ['group.tunnels.localhost:443']})['id']}"
    api.create(f"{path}/routes", {"match_type": "path_prefix", "match": "/", "backend": {"backend_id": group}})
    with (
        upstream(SlowUpstream) as port,
        gateways(platform.api, platform.api.local / "first", 1) as (first,),
        looping(platform, "group", [second.ssh_port], port, labels="app=fleet"),
        looping(platform, "group", [first.ssh_port, second.ssh_port], port, labels="app=fleet") as client,
    ):
        until(lambda: len(api.get(f"/backends/tunnel_group/{group}").json["tunnels"]) == 2)
        with Visitors(platform.address("group"), persistent=20, fresh=5) as visitors:
            until(lambda: visitors.done > 100)
            first.process.send_signal(signal.SIGTERM)
            assert first.process.wait(45) == 0
            count = visitors.done
            until(lambda: visitors.done > count + 100)
        assert any(SENTENCE in line for line in client.lines), client.lines
    assert visitors.failures == [], platform.list_unanswered()
    assert visitors.slowest < 5
    api.delete(path)


class FarUpstream(SlowUpstream):
    """A server in another region."""

    def do_GET(self) -> None:
        if self.path == "/":
            self._begin(4)
            self.wfile.write(b"far\n")
        else:
            super().do_GET()


def test_a_group_uses_another_region_only_without_tunnels_of_its_own(
    platform: Platform, second: GatewayProcess
) -> None:
    api, name = platform.api.client(), platform.address("regions")
    group = api.create("/backends/tunnel_group", {"labels": {"app": "regions"}})["id"]
    path = f"/edges/https/{api.create('/edges/https', {'hostports': ['regions.tunnels.localhost:443']})['id']}"
    api.create(f"{path}/routes", {"match_type": "path_prefix", "match": "/", "backend": {"backend_id": group}})
    with (
        upstream(SlowUpstream) as near_port,
        upstream(FarUpstream) as far_port,
        gateways(platform.api, platform.api.local / "far", 1, REGION="far") as (far_gateway,),
    ):
        connect_group(far_gateway.ssh_port, platform.key, far_port)
        until(lambda: {name.read() for _ in range(3)} == {b"far\n"})
        download = Download(name, "/slow/40")
        client = connect_group(second.ssh_port, platform.key, near_port)
        until(lambda: {name.read() for _ in range(5)} == {b"hello\n"})
        assert {tunnel["region"] for tunnel in api.get("/tunnels").json["tunnels"]} >= {"local", "far"}
        assert download.wait(10) == 40 << 10  # of the other region, before and after the change
        client.kill()
        until(lambda: {name.read() for _ in range(3)} == {b"far\n"})
    api.delete(path)


def connect_group(port: int, key: Key, service: int) -> Ssh:
    """Open a tunnel of the group of regions."""
    client = Ssh(ssh_command(port, key, "-tt", "-R", f"app=regions:80:127.0.0.1:{service}", "127.0.0.1"))
    client.wait_for("is online")
    return client


def test_a_client_behind_a_proxy_has_its_own_address_in_events(platform: Platform) -> None:
    api = platform.api.client()
    header = b"PROXY TCP4 203.0.113.7 127.0.0.1 50000 22\r\n"
    with gateways(platform.api, platform.api.local / "first", 1, SSH_PROXY_PROTOCOL_FROM="127.0.0.0/8") as (gateway,):
        with closing(Balancer([gateway.ssh_port], header)) as balancer:
            command = ssh_command(balancer.port, platform.key, "-tt", "-R", "behind:80:localhost:1", "127.0.0.1")
            client = Ssh(command)
            client.wait_for("is online")
            events = api.get("/audit_events?action=tunnel.create").json["audit_events"]
            assert "203.0.113.7" in json.dumps(events[0])
            client.kill()
        direct = Ssh(ssh_command(gateway.ssh_port, platform.key, "-R", "direct:80:localhost:1", "127.0.0.1"))
        assert direct.wait() == 255


def connect(port: int, key: Key, *names: str) -> Ssh:
    forwards = [part for name in names for part in ("-R", f"{name}:80:127.0.0.1:1")]
    client = Ssh(ssh_command(port, key, "-tt", *forwards, "127.0.0.1"))
    client.wait_for("is online")
    return client


def list_ended(platform: Platform, ids: Sequence[str]) -> list[str]:
    """Return the id of a tunnel once for each event of its end. Gateways of other tests may end meanwhile."""
    events = platform.api.client().all("/audit_events?action=tunnel.delete", "audit_events")
    return sorted(event["resource_id"] for event in events if event["resource_id"] in ids)


def find_tunnels(platform: Platform, names: Sequence[str]) -> dict[str, str]:
    """Return the ids of the tunnels with some names, by name."""
    ids = {
        tunnel.get("public_url", ""): tunnel["id"] for tunnel in platform.api.client().get("/tunnels").json["tunnels"]
    }
    return {name: id for name in names for url, id in ids.items() if url.startswith(f"https://{name}.")}


def test_the_tunnels_of_a_killed_gateway_end_with_one_event_each(platform: Platform, second: GatewayProcess) -> None:
    names = [f"dead{number}" for number in range(8)]
    with gateways(platform.api, platform.api.local / "first", 1, LEASE=_LEASE) as (first,):
        connect(first.ssh_port, platform.key, *names)
        until(lambda: find_tunnels(platform, names).keys() == {*names})
        ids = sorted(find_tunnels(platform, names).values())
        first.process.kill()
        start = time.monotonic()
        connect(second.ssh_port, platform.key, names[0])
        assert time.monotonic() - start < 6
        until(lambda: not find_tunnels(platform, names[1:]), within=10)
        until(lambda: {*list_ended(platform, ids)} == {*ids}, within=35)
        assert list_ended(platform, ids) == ids


def test_a_gateway_that_was_stopped_for_longer_than_its_lease_ends_its_clients(
    platform: Platform, second: GatewayProcess
) -> None:
    other = credential(platform.api, "other")
    with gateways(platform.api, platform.api.local / "first", 1, LEASE=_LEASE) as (first,):
        client = connect(first.ssh_port, platform.key, "paused")
        until(lambda: bool(platform.tunnels("paused")))
        first.process.send_signal(signal.SIGSTOP)
        until(lambda: not platform.tunnels("paused"), within=15)
        time.sleep(7)  # the clock skew
        connect(second.ssh_port, other, "paused")
        (tunnel,) = platform.tunnels("paused")
        first.process.send_signal(signal.SIGCONT)
        client.wait_for("This gateway has lost its lease: connect again in ")
        client.wait(within=10)
        assert [tunnel["id"] for tunnel in platform.tunnels("paused")] == [tunnel["id"]]
