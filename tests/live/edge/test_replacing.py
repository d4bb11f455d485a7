"""SIGUSR1 and SIGUSR2 to `make edge`, and a restart of control, under visitors: no request fails."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.conftest import free_port, serve
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.fleet import ClientLoop
from tests.live.edge.processes import Started, credential, start_edge
from tests.live.edge.running import until, upstream
from tests.live.edge.visitors import Address, Download, SlowUpstream, Visitors

pytestmark = needs_envoy


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """make run, a credential, and the edge."""
    folder = tmp_path_factory.mktemp("local")
    ports = {name: str(free_port()) for name in ("SSH_PORT", "EDGE_PORT", "HTTP_PORT", "METRICS_PORT")}
    run, api = serve(folder)
    try:
        key = credential(api, "key")
        edge = start_edge(api, {**ports, "LOCAL_DIR": str(folder), "DRAIN_TIMEOUT": "10"})
        try:
            yield Started(api, ports, edge, key)
        finally:
            edge.send_signal(signal.SIGINT)
            edge.wait(20)
    finally:
        run.send_signal(signal.SIGINT)
        run.wait(30)


def processes(started: Started, name: str) -> list[int]:
    """Return the process ids of the children of an edge with a name."""
    said = subprocess.run(["pgrep", "-P", str(started.edge.pid), "-f", f"edge {name}"], capture_output=True, text=True)
    return [int(it) for it in said.stdout.split()]


def envoys(started: Started) -> list[int]:
    """Return the process ids of the parents of Envoys."""
    return processes(started, "envoy")


def test_no_request_fails_while_envoy_is_replaced_twice_and_control_restarts(started: Started) -> None:
    authority = started.api.local / "edge" / "authority.crt"
    address = Address("demo.tunnels.localhost", int(started.ports["EDGE_PORT"]), authority)
    with upstream(SlowUpstream) as port:
        client = started.ssh("-R", f"demo:80:127.0.0.1:{port}")
        client.says("is online")
        until(lambda: started.status("demo") == "200", within=10)
        with Visitors(address, kept=20, fresh=10) as visitors:
            for _ in range(2):
                (before,) = envoys(started)
                download = Download(address, "/slow/40")
                started.edge.send_signal(signal.SIGUSR2)
                until(lambda: len(envoys(started)) == 2, within=10)
                until(lambda: len(envoys(started)) == 1, within=30)
                assert envoys(started) != [before]
                assert download.wait(10) == 40 << 10
            os.kill(started.child("control"), signal.SIGTERM)
            count = visitors.done
            until(lambda: visitors.done > count + 300)
        assert visitors.failures == []
        assert visitors.done > 1000
        client.kill()


def test_no_request_fails_while_the_gateway_is_replaced(started: Started) -> None:
    authority = started.api.local / "edge" / "authority.crt"
    address = Address("looped.tunnels.localhost", int(started.ports["EDGE_PORT"]), authority)
    with upstream(SlowUpstream) as port:
        client = ClientLoop(int(started.ports["SSH_PORT"]), started.key, "-R", f"looped:80:127.0.0.1:{port}")
        try:
            until(lambda: started.visit("looped") == "200", within=10)
            (before,) = processes(started, "gateway")
            with Visitors(address, kept=20, fresh=5) as visitors:
                download = Download(address, "/slow/30")
                started.edge.send_signal(signal.SIGUSR1)
                until(lambda: len(processes(started, "gateway")) == 2, within=10)
                until(lambda: len(processes(started, "gateway")) == 1, within=45)
                assert download.wait(1) == 30 << 10
                count = visitors.done
                until(lambda: visitors.done > count + 100)
            assert processes(started, "gateway") != [before]
            assert visitors.failures == []
            assert visitors.slowest < 5
        finally:
            client.end()
