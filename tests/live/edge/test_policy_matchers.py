"""Random traffic policies in a real Envoy, compared with Python's `ipaddress`."""

import contextlib
import importlib
import json
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from edge.envoy import listeners, parts, v3
from edge.envoy.filters import policy_matchers
from edge.link.proxy_protocol import Header
from edge.process.envoy_process.envoy_parent import ENVOY_ARGUMENTS
from edge.process.settings import Settings
from tests.edge import drawn_policies
from tests.edge.drawn_policies import LOOPBACK, OTHERS, PORT, REGION, DrawnPolicy
from tests.edge.envoy import messages
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import ENVOY, free_ports, listens, until

pytestmark = needs_envoy
_GREETING = importlib.import_module("envoy.extensions.filters.network.direct_response.v3.config_pb2")
POLICIES = 30  # of one Envoy, at two ports each: with and without a trusted proxy
NETWORKS = json.dumps([f"127.{number >> 8}.{number & 255}.0/24" for number in range(0, 4000, 2)])
LARGEST = json.dumps(
    {"inbound": [{"expressions": [f"!inCidrRanges(conn.client_ip, {NETWORKS})"], "actions": [{"type": "deny"}]}]}
)


@settings(max_examples=4, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.lists(drawn_policies.policies(), min_size=POLICIES, max_size=POLICIES))
def test_envoy_admits_the_clients_that_random_policies_admit(policies: Sequence[DrawnPolicy]) -> None:
    with serving([it.document for it in policies]) as ports:
        for policy, port in zip(policies, ports, strict=True):
            assert admitted(port, LOOPBACK) == [policy.admits(it) for it in LOOPBACK], policy.document
            assert admitted_by_proxy(port + 1, OTHERS) == [policy.admits(it) for it in OTHERS], policy.document


def test_envoy_matches_two_thousand_networks() -> None:
    with serving([LARGEST]) as (port,):
        assert admitted(port, ["127.0.0.1", "127.0.1.1", "127.15.158.9", "127.15.160.1"]) == [True, False, True, False]


@contextlib.contextmanager
def serving(documents: Sequence[str]) -> Iterator[Sequence[int]]:
    """Run an Envoy that greets clients. Yield the ports of the policies; a trusted proxy uses the next port each."""
    ports = free_ports(2 * len(documents))[::2]
    made = [
        listener(document, port, from_proxy)
        for document, port in zip(documents, ports, strict=True)
        for from_proxy in ("", "127.0.0.0/8")
    ]
    with TemporaryDirectory() as folder:
        file = Path(folder, "bootstrap.json")
        file.write_text(json.dumps({"static_resources": {"listeners": made}}))
        command = [str(ENVOY), *ENVOY_ARGUMENTS, "--concurrency", "1"]
        with subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) as envoy:
            try:
                until(lambda: listens(ports[-1] + 1))
                yield ports
            finally:
                envoy.kill()


def listener(document: str, port: int, trusted: str) -> Any:
    """Return the listener of a TCP edge's port, with a greeting instead of a backend."""
    own = Settings(proxy_protocol_from=(trusted,)) if trusted else Settings()
    config = parts.pack(_GREETING.Config(response=parts.text("welcome")))
    greeting = v3.Filter(name="envoy.filters.network.direct_response", typed_config=config)
    matcher = policy_matchers.build_matcher((policy_matchers.parse_document(document),), PORT, REGION)
    return messages.decode(listeners.build_port_listener(str(port + bool(trusted)), [greeting], own, matcher=matcher))


def admitted(port: int, sources: Sequence[str]) -> list[bool]:
    return [greeted(port, it) for it in sources]


def admitted_by_proxy(port: int, visitors: Sequence[str]) -> list[bool]:
    return [
        greeted(port, "127.0.0.1", Header((it, 4711), ("::1" if ":" in it else "10.9.9.9", 443)).encoded())
        for it in visitors
    ]


def greeted(port: int, source: str, first: bytes = b"") -> bool:
    """Return whether a client is greeted, or closed without a byte."""
    with socket.create_connection(("127.0.0.1", port), 5, (source, 0)) as connection:
        connection.sendall(first)
        with contextlib.suppress(ConnectionResetError):
            read = connection.recv(100)
            assert read in (b"", b"welcome")
            return bool(read)
        return False
