"""SIGUSR1 and SIGUSR2 to `make edge`, and a restart of control, under visitors: no request fails."""

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.live.edge.conftest import needs_envoy
from tests.live.edge.fleet import ClientLoop
from tests.live.edge.processes import Platform, run_edge
from tests.live.edge.running import until, upstream
from tests.live.edge.visitors import Download, Http2Visitor, SlowUpstream, Visitors, tls_upstream

pytestmark = needs_envoy


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """Run an API, an edge beside it, and a credential."""
    with run_edge(tmp_path_factory.mktemp("local"), DRAIN_TIMEOUT="10") as platform:
        yield platform


def processes(platform: Platform, name: str) -> list[int]:
    """Return the process ids of the children of an edge with a name."""
    result = subprocess.run(
        ["pgrep", "-P", str(platform.edge.pid), "-f", f"edge {name}"], capture_output=True, text=True
    )
    return [int(word) for word in result.stdout.split()]


def envoys(platform: Platform) -> list[int]:
    """Return the process ids of the parents of Envoys."""
    return processes(platform, "envoy")


def test_no_request_fails_while_envoy_is_replaced_twice_and_control_restarts(platform: Platform) -> None:
    address = platform.address("demo")
    with (
        upstream(SlowUpstream) as port,
        tls_upstream("passed.tunnels.localhost", platform.api.local) as (tls_port, tls_authority),
    ):
        client = platform.ssh("-R", f"demo:80:127.0.0.1:{port}", "-R", f"passed:443:127.0.0.1:{tls_port}")
        client.wait_for("passed.tunnels.localhost")
        tls_address = replace(platform.address("passed"), authority=tls_authority)
        until(lambda: platform.status("demo") == "200" and tls_address.answers(), within=10)
        with (
            Visitors(address, persistent=20, fresh=10) as visitors,
            Visitors(tls_address, persistent=0, fresh=5) as of_bytes,
            Http2Visitor(address) as http2,
        ):
            for number in range(2):
                (before,) = envoys(platform)
                download = Download(address, "/slow/40")
                platform.edge.send_signal(signal.SIGUSR2)
                until(lambda: len(envoys(platform)) == 2, within=10)
                if number == 1:  # also while a new Envoy connects to it
                    os.kill(platform.child("control"), signal.SIGTERM)
                until(lambda: len(envoys(platform)) == 1, within=30)
                assert envoys(platform) != [before]
                assert download.wait(10) == 40 << 10
            os.kill(platform.child("control"), signal.SIGTERM)
            count = visitors.done
            until(lambda: visitors.done > count + 300)
        assert (visitors.failures, of_bytes.failures, http2.failures) == ([], [], []), platform.list_unanswered()
        assert (visitors.done > 1000, of_bytes.done > 100, http2.done > 50) == (True, True, True)
        client.kill()


def test_no_request_fails_while_the_gateway_is_replaced(platform: Platform) -> None:
    address = platform.address("looped")
    with (
        upstream(SlowUpstream) as port,
        tls_upstream("bytes.tunnels.localhost", platform.api.local) as (tls_port, tls_authority),
    ):
        forwards = ["-R", f"looped:80:127.0.0.1:{port}", "-R", f"bytes:443:127.0.0.1:{tls_port}"]
        client = ClientLoop(int(platform.ports["SSH_PORT"]), platform.key, *forwards)
        tls_address = replace(platform.address("bytes"), authority=tls_authority)
        try:
            until(lambda: platform.visit("looped") == "200" and tls_address.answers(), within=10)
            (before,) = processes(platform, "gateway")
            with (
                Visitors(address, persistent=20, fresh=5) as visitors,
                Visitors(tls_address, persistent=0, fresh=3) as of_bytes,
                Http2Visitor(address) as http2,
            ):
                download = Download(address, "/slow/30")
                platform.edge.send_signal(signal.SIGUSR1)
                until(lambda: len(processes(platform, "gateway")) == 2, within=10)
                until(lambda: len(processes(platform, "gateway")) == 1, within=45)
                assert download.wait(1) == 30 << 10
                count = visitors.done
                until(lambda: visitors.done > count + 100)
            assert processes(platform, "gateway") != [before]
            assert (visitors.failures, of_bytes.failures, http2.failures) == ([], [], []), platform.list_unanswered()
            assert max(visitors.slowest, of_bytes.slowest) < 5
        finally:
            client.end()
