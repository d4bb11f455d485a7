"""The estimated memory of a name with the largest values that an account can store, compared with Envoy's own count."""

import re
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from chalicelib import ids, modules
from chalicelib.http.module import Module
from chalicelib.model.base import kinds
from chalicelib.model.edges.backends import HttpResponse, TunnelGroup, Weighted
from chalicelib.model.edges.enforced.enforced_modules import NO_MODULES
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.modules.user_agent_filter import UserAgentModule
from chalicelib.model.edges.served import Modules, ServedBackend, ServedEdge, ServedRoute
from chalicelib.model.tunnels import gateways
from chalicelib.model.tunnels.gateways import Gateway
from edge.link.authority import KeyPair
from edge.store.records import Grant, Opening
from tests import openssl
from tests.edge.edge_modules import enabled, extended, requested
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.ondemand.tables import read_allocated
from tests.live.edge.running import Edge, build_certificate, running, until
from tests.modules import largest

pytestmark = needs_envoy
_NAMES = 2  # of each form
_PAUSE = 0.5  # seconds between two reads that must be equal
_MAX_RATIO = 1.2  # of the estimate
_ESTIMATED = re.compile(r"^edge_names_loaded_bytes (\S+)", re.MULTILINE)
_WORDS = [f"{number:064}" for number in range(66)]
_LARGEST_FILTER = enabled(user_agent_filter=UserAgentModule(allow=_WORDS, deny=[*_WORDS, "a[ab]{30}X"]))
_LONG_PATH = "a.b/" * 250

Create = Callable[[Edge, str, str], None]  # with the account and the label of the name


@pytest.fixture(autouse=True)
def reset_store() -> None:
    """Leave the names of each test loaded: memory that Envoy frees would hide memory that the next names need."""


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    folder = tmp_path_factory.mktemp("edge")
    with running(folder, with_envoy=True, max_loaded_mib=4000, max_cold_reads=5000) as table:
        gateways.announce(Gateway("gw-sizes", "127.0.0.1", 1), lease=600)
        _load(table, "first", _small)
        yield table


def _add_backend(edge: Edge, account: str, prefix: str, value: Any) -> str:
    backend = ServedBackend(account, ids.new(prefix), value)
    edge.store.keep(backend)
    return backend.id


def _add_response(edge: Edge, account: str) -> str:
    return _add_backend(edge, account, "bkdhr", HttpResponse(body="hello"))


def _add_edge(
    edge: Edge,
    account: str,
    label: str,
    routes: Sequence[tuple[str, str]],
    backends: Sequence[str],
    modules_of_route: Modules = NO_MODULES,
) -> None:
    """Add an edge with routes to all backends, with the same modules but at /."""
    all_of_them = _add_backend(edge, account, "bkdwd", Weighted(backends=dict.fromkeys(backends, 1)))
    backend = BackendModule(backend_id=all_of_them)
    modules = [extended(modules_of_route if match != "/" else NO_MODULES, backend=backend) for _, match in routes]
    served_routes = tuple(
        ServedRoute(ids.new("edghtsrt"), *route, modules_of_route)
        for route, modules_of_route in zip(routes, modules, strict=True)
    )
    host = f"{label}.{edge.settings.tunnel_domain}:443"
    edge.store.keep(ServedEdge(account, ids.new("edghts"), 1, (host,), routes=served_routes))


def _small(edge: Edge, account: str, label: str) -> None:
    _add_edge(edge, account, label, [("path_prefix", "/")], [_add_response(edge, account)])


def _many_backends(edge: Edge, account: str, label: str) -> None:
    routes: list[tuple[str, str]] = [("path_prefix", f"/{number}" if number else "/") for number in range(50)]
    _add_edge(edge, account, label, routes, [_add_response(edge, account) for _ in range(100)])


def _long_chain(edge: Edge, account: str, label: str) -> None:
    host = f"{label}.{edge.settings.tunnel_domain}"
    names = ",".join(f"DNS:{name}" for name in (host, *(f"{'a' * 50}{number}.example.com" for number in range(600))))
    long_chain = openssl.issue(f"/CN={label}", extensions=(f"subjectAltName={names}",))
    certificate = replace(build_certificate(ids.new("cert"), account, host), chain=long_chain.certificate)
    edge.store.upload(certificate, KeyPair(long_chain.certificate, long_chain.key))
    _small(edge, account, label)


def _large_group(edge: Edge, account: str, label: str) -> None:
    for _ in range(100):
        grant = Grant(account, "sshcr_sizes", ())
        opening = Opening(grant, "gw-sizes", "ts_1", "192.0.2.9", labels=(("app", label),))
        edge.store.open(opening, most=100)
    group = _add_backend(edge, account, "bkdtg", TunnelGroup(labels={"app": label}))
    _add_edge(edge, account, label, [("path_prefix", "/")], [group])


def _filters(edge: Edge, account: str, label: str) -> None:
    routes: list[tuple[str, str]] = [("path_prefix", f"/{number}" if number else "/") for number in range(20)]
    _add_edge(edge, account, label, routes, [_add_response(edge, account)], _LARGEST_FILTER)


def _long_paths(edge: Edge, account: str, label: str) -> None:
    routes: list[tuple[str, str]] = [("path_prefix", f"/{number}{_LONG_PATH}") for number in range(99)]
    _add_edge(edge, account, label, [*routes, ("path_prefix", "/")], [_add_response(edge, account)])


def _long_exact_paths(edge: Edge, account: str, label: str) -> None:
    routes: list[tuple[str, str]] = [("exact_path", f"/{number}{_LONG_PATH}") for number in range(20)]
    filtered = enabled(user_agent_filter=UserAgentModule(deny=["curl"]))
    _add_edge(edge, account, label, [*routes, ("path_prefix", "/")], [_add_response(edge, account)], filtered)


def _with_module(module: Module, edge: Edge, account: str, label: str) -> None:
    """Add an edge whose routes have the largest value of a module."""
    modules_of_route = requested({module.name: largest.make(module)}, kinds.HTTPS_EDGE_ROUTES)
    assert not modules_of_route.unenforced
    routes: list[tuple[str, str]] = [("path_prefix", f"/{number}") for number in range(50)]
    _add_edge(edge, account, label, [*routes, ("path_prefix", "/")], [_add_response(edge, account)], modules_of_route)


_FORMS: Mapping[str, Create] = {
    "backends": _many_backends,
    "chain": _long_chain,
    "group": _large_group,
    "filters": _filters,
    "paths": _long_paths,
    "exact-paths": _long_exact_paths,
    **{module.name.replace("_", "-"): partial(_with_module, module) for module in modules.of(kinds.HTTPS_EDGE_ROUTES)},
}


@pytest.mark.parametrize("form", _FORMS)
def test_envoy_does_not_take_more_than_the_estimate(edge: Edge, form: str) -> None:
    allocated, estimated = _settle(lambda: read_allocated(edge.settings)), _read_estimated(edge)
    _load(edge, form, _FORMS[form])
    until(lambda: _read_estimated(edge) > estimated)
    growth = _settle(lambda: _read_estimated(edge)) - estimated
    assert (_settle(lambda: read_allocated(edge.settings)) - allocated) / growth <= _MAX_RATIO


def _load(edge: Edge, form: str, create: Create) -> None:
    labels = [f"{form}{number}" for number in range(_NAMES)]
    for label in labels:
        create(edge, f"acct_{label}", label)
    edge.settle()
    until(lambda: {edge.status(label, "--insecure") for label in labels} <= {"200", "502"}, within=30)


def _settle(read: Callable[[], int]) -> int:
    """Return a number of bytes when it has stayed the same for a while."""
    before = -1
    while (number := read()) != before:
        before = number
        time.sleep(_PAUSE)
    return number


def _read_estimated(edge: Edge) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{edge.settings.metrics_port}/metrics", timeout=10) as answer:
        match = _ESTIMATED.search(answer.read().decode())
    assert match
    return int(float(match[1]))
