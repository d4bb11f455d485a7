"""A gateway that is killed, and one that is stopped for longer than its lease, beside a whole edge."""

import signal
import time
from collections.abc import Iterator

import pytest

from tests.conftest import free_port, serve
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.fleet import gateways
from tests.live.edge.processes import Started, credential, start_edge
from tests.live.edge.running import Key, Ssh, ssh_command, until

pytestmark = needs_envoy
_LEASE = "6"


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


def connect(port: int, key: Key, *names: str) -> Ssh:
    forwards = [part for name in names for part in ("-R", f"{name}:80:127.0.0.1:1")]
    client = Ssh(ssh_command(port, key, "-tt", *forwards, "127.0.0.1"))
    client.says("is online")
    return client


def ended(started: Started) -> list[str]:
    found = started.api.client().all("/audit_events", "audit_events")
    return sorted(it["resource_id"] for it in found if it["action"] == "tunnel.delete")


def test_the_tunnels_of_a_killed_gateway_end_with_one_event_each(started: Started) -> None:
    names = [f"dead{number}" for number in range(8)]
    before = ended(started)
    with gateways(started.api, started.api.local, 2, LEASE=_LEASE) as (first, second):
        connect(first.ssh_port, started.key, *names)
        until(lambda: all(started.tunnels(it) for it in names))
        ids = sorted(started.tunnels(it)[0]["id"] for it in names)
        first.process.kill()
        began = time.monotonic()
        connect(second.ssh_port, started.key, names[0])
        assert time.monotonic() - began < 3
        until(lambda: not any(started.tunnels(it) for it in names[1:]), within=10)
        until(lambda: sorted({*ended(started)} - {*before}) == ids, within=35)
        assert len(ended(started)) == len(before) + len(ids)


def test_a_gateway_that_was_stopped_for_longer_than_its_lease_ends_its_clients(started: Started) -> None:
    other = credential(started.api, "other")
    with gateways(started.api, started.api.local, 2, LEASE=_LEASE) as (first, second):
        client = connect(first.ssh_port, started.key, "paused")
        until(lambda: bool(started.tunnels("paused")))
        first.process.send_signal(signal.SIGSTOP)
        until(lambda: not started.tunnels("paused"), within=15)
        time.sleep(7)  # the clock skew
        connect(second.ssh_port, other, "paused")
        (taken,) = started.tunnels("paused")
        first.process.send_signal(signal.SIGCONT)
        client.says("This gateway has lost its lease: connect again in ")
        client.ends(within=10)
        assert [it["id"] for it in started.tunnels("paused")] == [taken["id"]]
