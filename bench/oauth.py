"""OAuth at an edge host. The rows are the CPU of requests in Envoy and the sign-in service, a sign-in, and memory."""

import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from statistics import median
from typing import Any

from bench import edge_host, requests, results, side_by_side
from bench.edge_host import Host
from bench.engines import Setting
from bench.oauth_visits import Browser, Http2
from bench.results import Result, Row
from chalicelib.model.sign_in import managed_apps
from chalicelib.operator import accounts
from edge.link import authority
from infra import ROOT
from infra.deploy import data_stack
from tests.edge.sign_in import fake_providers
from tests.edge.sign_in.fake_providers import FakeProviders

_TABLE, _DOMAIN = "edge-oauth", "tunnels.localhost"
_APP, _PLAIN, _MANAGED = (f"{label}.{_DOMAIN}" for label in ("app", "plain", "managed"))
_ROUNDS, _REQUESTS = 11, 1_000
_OF_OPEN, _OF_PLAIN = 1.35, 1.55  # bounds of the CPU, by open routes of the same edge and of another
_SECONDS, _MOST_ASKS = 30, 3  # seconds with 1,000 requests of a session, and the most that may ask the service
_CHECKS, _MOST_CHECK = 2_000, 0.0005  # seconds of the service's CPU
_SIGN_INS, _MOST_SIGN_IN = 11, 0.150  # seconds of our requests
_CHANGES, _MOST_CHANGE = 5, 2  # changes in each direction; seconds
_MOST_MANAGED = 8  # seconds from the operator's command
_EDGES, _MOST_ROUTE = 100, 40 << 10  # bytes of Envoy's memory
_SETTLING = 6  # seconds until Envoy has counted what it has allocated
_RENEWED = re.compile(r"^edge_oauth_sessions_renewed_total (\S+)$", re.MULTILINE)
_LISTENERS = re.compile(r"^envoy_listener_manager_total_listeners_active\{[^}]*\} (\d+)$", re.MULTILINE)
_SIGN_IN = {"sec-fetch-mode": "cors"}
_APPLICATION = {"client_id": "app", "client_secret": "very secret"}
_MODULE = {"provider": {"google": _APPLICATION}}
_DOMAINS = (
    ["example.org"],
    ["example.com"],
)  # two values of `email_domains`; the visitor's address is in the second domain


def measure(_setting: Setting) -> Result:
    """Measure a host with an edge with OAuth and one without, then the memory of edges with OAuth."""
    os.environ.update(TABLE_NAME=_TABLE, KEY_ID=f"alias/{_TABLE}", TUNNEL_DOMAIN=_DOMAIN)
    data_stack.deploy(_TABLE, {})
    token = accounts.create_account("oauth", "admin")[2]
    module = f"{_create_edge(token, _APP, {'/': {'oauth': _MODULE}, '/open': {}})[0]}/oauth"
    _create_edge(token, _PLAIN, {"/": {}})
    _create_edge(token, _MANAGED, {"/": {"oauth": {"provider": {"gitlab": {}}}}})
    with fake_providers.serve() as providers:
        with _run(providers) as (host, service):
            rows = [*_measure_envoy(host), _measure_asks(host), _measure_checks(host, service), _measure_sign_in(host)]
            rows.append(_measure_changes(host, lambda body: _put(token, module, body)))
            rows.append(_measure_managed(host))
        return Result([*rows, _measure_memory(token, providers)])


def _measure_envoy(host: Host) -> list[Row]:
    """Compare Envoy's CPU for signed-in requests and for open routes."""
    browser = Browser(host, _APP)
    browser.open("/")
    paths = (_APP, "/"), (_APP, "/open"), (_PLAIN, "/")
    actions = [partial(_measure_round, host, browser, name, path) for name, path in paths]
    signed_in, is_open, plain = side_by_side.medians_of(actions, _ROUNDS)
    return [
        results.at_most(_OF_OPEN, "CPU of Envoy, signed in: an open route of the edge", signed_in, is_open, results.us),
        results.at_most(_OF_PLAIN, "CPU of Envoy, signed in: an edge without OAuth", signed_in, plain, results.us),
    ]


def _measure_round(host: Host, browser: Browser, name: str, path: str) -> float:
    """Return Envoy's CPU seconds of a request."""
    connection = Http2(host, name)
    try:
        headers = {"cookie": _build_cookie(connection, browser)} if name == _APP else {"cookie": "theme=dark"}
        connection.get(path, headers, 100)
        before = host.envoy_cpu
        connection.get(path, headers, _REQUESTS)
        return (host.envoy_cpu - before) / _REQUESTS
    finally:
        connection.close()


def _build_cookie(connection: Http2, browser: Browser) -> str:
    """Return the Cookie header with a session token that has just been made."""
    browser.cookies = {name: value for name, value in browser.cookies.items() if "session." not in name}
    (headers,) = connection.get_any("/", {"cookie": browser.cookie})
    browser.keep(headers)
    return browser.cookie


def _measure_asks(host: Host) -> Row:
    """Count how many requests of a session in constant use ask the service."""
    browser = Browser(host, _APP)
    browser.open("/")
    connection, renewals, began = Http2(host, _APP), _read_renewed(host), time.monotonic()
    for number in range(_REQUESTS):
        time.sleep(max(0, began + number * _SECONDS / _REQUESTS - time.monotonic()))
        (headers,) = connection.get_any("/", {"cookie": browser.cookie})
        if dict(headers)[":status"] != "200":
            raise RuntimeError(f"A signed-in request was answered with {headers}.")
        browser.keep(headers)
    connection.close()
    figure = f"requests to the sign-in service, of {_REQUESTS:,} of a session in {_SECONDS} s: {_MOST_ASKS}"
    return results.at_most(1, figure, _read_renewed(host) - renewals, _MOST_ASKS, lambda count: f"{count:.0f}")


def _measure_checks(host: Host, service: int) -> Row:
    """Measure the service's CPU of a request without a session."""
    connection = Http2(host, _APP)
    connection.get_any("/", _SIGN_IN, 200)
    before = edge_host.cpu(service)
    answers = connection.get_any("/", _SIGN_IN, _CHECKS)
    seconds = (edge_host.cpu(service) - before) / _CHECKS
    if {dict(headers)[":status"] for headers in answers} != {"401"}:
        raise RuntimeError("A request without a session was not answered with 401.")
    connection.close()
    return results.at_most(1, "CPU of the service, a check without a session: 0.5 ms", seconds, _MOST_CHECK, results.ms)


def _measure_sign_in(host: Host) -> Row:
    seconds = median(Browser(host, _APP).open(f"/{number}") for number in range(_SIGN_INS))
    figure = f"a sign-in, four requests on new connections: {_MOST_SIGN_IN * 1000:.0f} ms"
    return results.at_most(1, figure, seconds, _MOST_SIGN_IN, results.ms)


def _measure_changes(host: Host, put: Callable[[Mapping[str, Any]], None]) -> Row:
    """Measure the time until an open connection obeys a changed list."""
    browser = Browser(host, _APP)
    browser.open("/")
    connection, seconds = Http2(host, _APP), []
    for number in range(2 * _CHANGES):
        put({"provider": {"google": {**_APPLICATION, "email_domains": _DOMAINS[number % 2]}}})
        began = time.monotonic()
        edge_host.wait_until(partial(_has_status, connection, browser, ("403", "200")[number % 2]))
        seconds.append(time.monotonic() - began)
    connection.close()
    figure = f"until open connections obey a changed list, the longest of {len(seconds)}: {_MOST_CHANGE} s"
    return results.at_most(1, figure, max(seconds), _MOST_CHANGE, results.ms)


def _measure_managed(host: Host) -> Row:
    """Measure the time until a route uses an application that the operator sets. Until then it is closed."""
    browser = Browser(host, _MANAGED)
    if (status := browser.get(_MANAGED, "/").status) != 503:
        raise RuntimeError(f"A route without a managed application answered {status}.")
    began = time.monotonic()
    managed_apps.set_app("gitlab", "app", "very secret")
    edge_host.wait_until(lambda: browser.get(_MANAGED, "/").status == 302)
    if "/confirm?" not in (location := browser.get(_MANAGED, "/").headers["location"]):
        raise RuntimeError(f"The route redirects to {location} before the page of the service.")
    figure = f"until a route uses a managed application, after the operator's command: {_MOST_MANAGED} s"
    return results.at_most(1, figure, time.monotonic() - began, _MOST_MANAGED, results.ms)


def _has_status(connection: Http2, browser: Browser, status: str) -> bool:
    (headers,) = connection.get_any("/", {"cookie": browser.cookie})
    return dict(headers)[":status"] == status


def _measure_memory(token: str, providers: FakeProviders) -> Row:
    """Compare Envoy's memory for edges with mutual TLS with the same edges when they have OAuth."""
    body = {"ca_pem": authority.make("Visitors").pem}
    id = requests.create("/certificate_authorities", token, body)["id"]
    more = {"mutual_tls": {"certificate_authority_ids": [id]}}
    routes = [_create_edge(token, f"m{number}.{_DOMAIN}", {"/": {}}, **more)[0] for number in range(_EDGES)]
    without = _read_memory(providers)
    for route in routes:
        _put(token, f"{route}/oauth", _MODULE)
    used = (_read_memory(providers) - without) / _EDGES
    figure = f"memory of Envoy for a route with OAuth, {_EDGES} edges with mutual TLS: 40 KiB"
    return results.at_most(1, figure, used, _MOST_ROUTE, results.kib)


def _read_memory(providers: FakeProviders) -> int:
    """Return the bytes that the Envoy of a new host has allocated with all special names."""
    with _run(providers) as (host, _):
        edge_host.wait_until(lambda: _count_listeners(host) > 2 * _EDGES)
        time.sleep(_SETTLING)
        return host.allocated()


def _read_renewed(host: Host) -> float:
    if match := _RENEWED.search(host.metrics()):
        return float(match[1])
    raise RuntimeError("The metrics of the sign-in service are missing.")


def _count_listeners(host: Host) -> int:
    return int(match[1]) if (match := _LISTENERS.search(host.stats())) else 0


def _create_edge(token: str, name: str, routes: Mapping[str, Any], **more: Any) -> list[str]:
    """Create an edge with routes to an HTTP response. Return the routes' paths in the API."""
    backend = requests.create("/backends/http_response", token, {"body": "hello"})["id"]
    edge = requests.create("/edges/https", token, {"hostports": [f"{name}:443"], **more})["id"]
    path = f"/edges/https/{edge}/routes"
    paths = []
    for match, modules in routes.items():
        body = {"match_type": "path_prefix", "match": match, "backend": {"backend_id": backend}, **modules}
        paths.append(f"{path}/{requests.create(path, token, body)['id']}")
    return paths


def _put(token: str, path: str, module: Mapping[str, Any]) -> None:
    requests.answer(requests.event("PUT", path, token, module))


@contextlib.contextmanager
def _run(providers: FakeProviders) -> Iterator[tuple[Host, int]]:
    """Run a host and its sign-in service. Yield the host and the service's process id."""
    with edge_host.running(MAX_COLD_READS="5000", MAX_REQUESTS_PER_VISITOR="1000000") as host:
        endpoints = host.folder / "endpoints.json"
        endpoints.write_text(json.dumps(providers.endpoints()))
        environment = {**host.environment, "OAUTH_ENDPOINTS": str(endpoints)}
        command = sys.executable, "-m", "edge", "sign-in"
        with edge_host.run_program(host.folder / "sign-in.log", environment, ROOT, *command) as service:
            edge_host.wait_until(partial(_is_ready, host))
            yield host, service.pid


def _is_ready(host: Host) -> bool:
    """Return whether a new host begins sign-ins. Until it has read a name's records, it refuses the handshake."""
    try:
        return Browser(host, _APP).get(_APP, "/").status == 302
    except OSError:
        return False
