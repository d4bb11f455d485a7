"""Traffic policies of every form, and random ones compared with Python's `ipaddress`, in a real Envoy."""

import contextlib
import importlib
import json
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
from tests.edge.drawn_policies import LOOPBACK, OTHER_ADDRESSES, PORT, REGION, DrawnPolicy
from tests.edge.envoy import messages
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.greetings import Server, is_greeted
from tests.live.edge.running import ENVOY, free_ports, listens, until

pytestmark = needs_envoy
_GREETING = importlib.import_module("envoy.extensions.filters.network.direct_response.v3.config_pb2")
POLICIES = 30  # of one Envoy, at two ports each: with and without a trusted proxy
NETWORKS = json.dumps([f"127.{number >> 8}.{number & 255}.0/24" for number in range(0, 4000, 2)])
LARGEST = json.dumps(
    {"inbound": [{"expressions": [f"!inCidrRanges(conn.client_ip, {NETWORKS})"], "actions": [{"type": "deny"}]}]}
)
FIRST_SOURCE, SECOND_SOURCE = "127.0.0.2", "127.0.0.3"
DENY = {"type": "deny"}
EXPRESSIONS: list[tuple[str, list[bool]]] = [  # whether each of the two clients is denied
    ("true", [True, True]),
    ("false", [False, False]),
    (f"conn.client_ip == '{FIRST_SOURCE}'", [True, False]),
    (f"'{FIRST_SOURCE}' == conn.client_ip", [True, False]),
    (f"conn.client_ip != '{FIRST_SOURCE}'", [False, True]),
    (f'"{FIRST_SOURCE}" != conn.client_ip', [False, True]),
    (f"conn.client_ip in ['{FIRST_SOURCE}', '192.0.2.1']", [True, False]),
    ("conn.client_ip in []", [False, False]),
    (f"inCidrRange(conn.client_ip, '{FIRST_SOURCE}/32')", [True, False]),
    ("inCidrRange(conn.client_ip, '127.0.0.2/31')", [True, True]),
    (f"inCidrRanges(conn.client_ip, ['192.0.2.0/24', '{SECOND_SOURCE}'])", [False, True]),
    (f"inCidrRange(conn.client_ip, '::ffff:{SECOND_SOURCE}/128')", [False, True]),
    *(
        (f"conn.server_port {sign} {PORT}", [sign in ("==", "<=", ">=")] * 2)
        for sign in ("==", "!=", "<", "<=", ">", ">=")
    ),
    (f"conn.server_port in [22, {PORT}]", [True, True]),
    (f"conn.server_region == '{REGION}'", [True, True]),
    (f"conn.server_region != '{REGION}'", [False, False]),
    (f"conn.server_region in ['elsewhere', '{REGION}']", [True, True]),
    (f"!(conn.client_ip == '{FIRST_SOURCE}')", [False, True]),
    (f"conn.client_ip == '{FIRST_SOURCE}' && conn.server_port == {PORT} || false", [True, False]),
    (f"true || conn.client_ip == '{FIRST_SOURCE}' && false", [True, True]),
    (f"// a comment\nconn.client_ip == '{SECOND_SOURCE}' // another one", [False, True]),
]
RULES: list[tuple[list[Any], list[bool]]] = [
    ([], [False, False]),
    ([{"actions": [DENY]}], [True, True]),
    ([{"expressions": [], "actions": [{**DENY, "config": None}]}], [True, True]),
    (
        [{"expressions": ["true", f"conn.client_ip == '{FIRST_SOURCE}'"], "actions": [{**DENY, "config": {}}]}],
        [True, False],
    ),
    ([{"actions": [{"type": "restrict-ips", "config": {"allow": [FIRST_SOURCE]}}]}], [False, True]),
    (
        [{"actions": [{"type": "restrict-ips", "config": {"allow": ["127.0.0.0/8"], "deny": [f"{FIRST_SOURCE}/32"]}}]}],
        [True, False],
    ),
    ([{"actions": [{"type": "restrict-ips", "config": {"allow": [FIRST_SOURCE], "enforce": False}}]}], [False, False]),
    (
        [
            {"expressions": [f"conn.client_ip == '{SECOND_SOURCE}'"], "actions": [DENY]},
            {"actions": [{"type": "restrict-ips", "config": {"allow": [SECOND_SOURCE], "deny": [], "enforce": True}}]},
        ],
        [True, True],
    ),
]


def test_a_client_that_any_form_rejects_gets_no_byte_and_the_backend_sees_no_connection() -> None:
    """The backend sends the first byte, and counts connections."""
    forms = [
        ([{"expressions": [expression], "actions": [DENY]}], denials) for expression, denials in EXPRESSIONS
    ] + RULES
    documents = [json.dumps({"inbound": rules}) for rules, _ in forms]
    with contextlib.closing(Server()) as server, serving(documents, server.port) as ports:
        for (rules, denials), port in zip(forms, ports, strict=True):
            assert list_admitted(port, [FIRST_SOURCE, SECOND_SOURCE]) == [not is_denied for is_denied in denials], rules
        assert server.accepted == sum(denials.count(False) for _, denials in forms)


@settings(max_examples=4, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.lists(drawn_policies.policies(), min_size=POLICIES, max_size=POLICIES))
def test_envoy_admits_the_clients_that_random_policies_admit(policies: Sequence[DrawnPolicy]) -> None:
    with serving([policy.document for policy in policies]) as ports:
        for policy, port in zip(policies, ports, strict=True):
            assert list_admitted(port, LOOPBACK) == [policy.admits(source) for source in LOOPBACK], policy.document
            assert list_admitted_by_proxy(port + 1, OTHER_ADDRESSES) == [
                policy.admits(source) for source in OTHER_ADDRESSES
            ], policy.document


def test_envoy_matches_two_thousand_networks() -> None:
    with serving([LARGEST]) as (port,):
        assert list_admitted(port, ["127.0.0.1", "127.0.1.1", "127.15.158.9", "127.15.160.1"]) == [
            True,
            False,
            True,
            False,
        ]


@contextlib.contextmanager
def serving(documents: Sequence[str], backend: int = 0) -> Iterator[Sequence[int]]:
    """Run an Envoy. Yield the ports of the policies; a trusted proxy uses the next port each.

    Envoy itself greets clients, unless they have a backend at a port.
    """
    final = build_proxy() if backend else build_greeting()
    ports = free_ports(2 * len(documents))[::2]
    listeners = [
        listener(document, port, from_proxy, final)
        for document, port in zip(documents, ports, strict=True)
        for from_proxy in ("", "127.0.0.0/8")
    ]
    with TemporaryDirectory() as folder:
        file = Path(folder, "bootstrap.json")
        file.write_text(json.dumps({"static_resources": {"listeners": listeners, "clusters": [cluster(backend)]}}))
        command = [str(ENVOY), *ENVOY_ARGUMENTS, "--concurrency", "1"]
        with subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) as envoy:
            try:
                until(lambda: listens(ports[-1] + 1))
                yield ports
            finally:
                envoy.kill()


def build_greeting() -> v3.Filter:
    config = parts.pack(_GREETING.Config(response=parts.text("welcome")))
    return v3.Filter(name="envoy.filters.network.direct_response", typed_config=config)


def build_proxy() -> v3.Filter:
    config = parts.pack(v3.TcpProxy(stat_prefix="backend", cluster="backend"))
    return v3.Filter(name="envoy.filters.network.tcp_proxy", typed_config=config)


def cluster(port: int) -> Any:
    """Return the cluster of the backend."""
    assignment = parts.assignment("backend", parts.address("127.0.0.1", port))
    return messages.to_json(v3.Cluster(name="backend", load_assignment=assignment))


def listener(document: str, port: int, trusted_proxy: str, final: v3.Filter) -> Any:
    """Return the listener of a TCP edge's port, with a last filter."""
    settings = Settings(proxy_protocol_from=(trusted_proxy,)) if trusted_proxy else Settings()
    matcher = policy_matchers.build_matcher((policy_matchers.parse_document(document),), PORT, REGION)
    return messages.decode(
        listeners.build_port_listener(str(port + bool(trusted_proxy)), [final], settings, matcher=matcher)
    )


def list_admitted(port: int, sources: Sequence[str]) -> list[bool]:
    return [is_greeted(port, source) for source in sources]


def list_admitted_by_proxy(port: int, visitors: Sequence[str]) -> list[bool]:
    return [
        is_greeted(port, "127.0.0.1", Header((visitor, 4711), ("::1" if ":" in visitor else "10.9.9.9", 443)).encoded())
        for visitor in visitors
    ]
