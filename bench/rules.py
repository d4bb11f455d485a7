"""Rules for visitors: the CPU that each module adds to Envoy for a request that passes."""

import base64
import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from bench import circuits, edge_host, requests, results, side_by_side
from bench.edge_host import Host
from bench.engines import Setting
from bench.oauth_visits import Http2
from bench.results import Result, Row
from chalicelib.operator import accounts
from infra import ROOT
from infra.deploy import data_stack

_TABLE, _DOMAIN = "edge-rules", "tunnels.localhost"
_NAME = f"rules.{_DOMAIN}"
_ROUNDS, _REQUESTS = 21, 1_000
_BODY = "A line of text that compresses well.\n" * 50
_PASSWORD = {"username": "ada", "password": "correct horse battery"}
_AUTHORIZATION = base64.b64encode(":".join(_PASSWORD.values()).encode()).decode()


class _Case(NamedTuple):
    """A module of a route. It has a bound of its CPU ratio (None to report it only), and headers of its requests."""

    modules: Mapping[str, Any]
    bar: float | None = 1.05
    headers: Mapping[str, str] = {}


def measure(_setting: Setting) -> Result:
    """Compare routes with one module each with an open route of the same edge."""
    os.environ.update(TABLE_NAME=_TABLE, KEY_ID=f"alias/{_TABLE}", TUNNEL_DOMAIN=_DOMAIN)
    data_stack.deploy(_TABLE, {})
    token = accounts.create_account("rules", "admin")[2]
    cases = _make_cases(token)
    _create_edge(token, cases)
    with _run() as host:
        edge_host.wait_until(lambda: host.visit(_NAME) == "200")
        rows = [_compare(host, name, case) for name, case in cases.items()]
    return Result([*rows, circuits.compare()])


def _make_cases(token: str) -> Mapping[str, _Case]:
    policy = requests.create("/ip_policies", token, {})["id"]
    requests.create("/ip_policy_rules", token, {"ip_policy_id": policy, "cidr": "127.0.0.0/8", "action": "allow"})
    headers = {"add": {"X-Edge": "one", "X-Other": "two"}, "remove": ["X-Debug"]}
    return {
        "ip_restriction": _Case({"ip_restriction": {"ip_policy_ids": [policy]}}),
        "request_headers": _Case({"request_headers": headers}),
        "response_headers": _Case({"response_headers": headers}),
        "basic_auth": _Case(
            {"basic_auth": {"credentials": [_PASSWORD]}}, 1.3, {"authorization": f"Basic {_AUTHORIZATION}"}
        ),
        "compression": _Case({"compression": {}}, None, {"accept-encoding": "gzip"}),
    }


def _create_edge(token: str, cases: Mapping[str, _Case]) -> None:
    """Create an edge with a route for each case, and an open one."""
    backend = requests.create("/backends/http_response", token, {"body": _BODY})["id"]
    edge = requests.create("/edges/https", token, {"hostports": [f"{_NAME}:443"]})["id"]
    for match, modules in {"/": {}, **{f"/{name}": case.modules for name, case in cases.items()}}.items():
        body = {"match_type": "path_prefix", "match": match, "backend": {"backend_id": backend}, **modules}
        requests.create(f"/edges/https/{edge}/routes", token, body)


def _compare(host: Host, name: str, case: _Case) -> Row:
    actions = [partial(_measure_round, host, path, case.headers) for path in (f"/{name}", "/")]
    taken, is_open = side_by_side.medians_of(actions, _ROUNDS)
    if case.bar is None:
        return results.reported(f"CPU of Envoy, {name}: an open route", taken, is_open, results.us)
    return results.at_most(case.bar, f"CPU of Envoy, {name}: an open route", taken, is_open, results.us)


def _measure_round(host: Host, path: str, headers: Mapping[str, str]) -> float:
    """Return Envoy's CPU seconds of a request."""
    connection = Http2(host, _NAME)
    try:
        connection.get(path, headers, 100)
        before = host.envoy_cpu
        connection.get(path, headers, _REQUESTS)
        return (host.envoy_cpu - before) / _REQUESTS
    finally:
        connection.close()


@contextlib.contextmanager
def _run() -> Iterator[Host]:
    """Run a host and its sign-in service."""
    with edge_host.running(MAX_COLD_READS="5000", MAX_REQUESTS_PER_VISITOR="1000000") as host:
        command = sys.executable, "-m", "edge", "sign-in"
        with edge_host.run_program(host.folder / "sign-in.log", host.environment, ROOT, *command):
            edge_host.wait_until((host.folder / "sign-in.sock").exists)
            yield host
