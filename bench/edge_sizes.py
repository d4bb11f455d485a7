"""The memory that Envoy allocates for a loaded name, compared with control's estimate, for the largest modules."""

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from bench import edge_accounts, edge_host, requests, results
from bench.edge_accounts import Accounts
from bench.edge_host import Host
from bench.engines import Setting
from bench.results import Result, Row
from infra.deploy import data_stack

_TABLE, _DOMAIN = "edge-sizes", "tunnels.localhost"
_NAMES = 20  # of each form
_SETTLING = 6  # seconds until Envoy has counted what it has allocated
_LONG = 64  # characters of the longest words in filters
_WORDS = [f"{number:0{_LONG}}" for number in range(66)]
LARGEST = {"allow": _WORDS, "deny": [*_WORDS, "a[ab]{30}X"]}
_CASELESS = [f"(?i)word{number:036}" for number in range(90)]
_LARGEST_CASELESS = {"allow": _CASELESS, "deny": _CASELESS}
_MOST, _LEAST = 1.2, 0.4  # of the estimate; visits with other User-Agents make filters larger

Create = Callable[[str, str], None]


def measure(_setting: Setting) -> Result:
    """Load names of each form, one form after the other."""
    os.environ.update(TABLE_NAME=_TABLE, KEY_ID=f"alias/{_TABLE}", TUNNEL_DOMAIN=_DOMAIN)
    data_stack.deploy(_TABLE, {})
    accounts_by_form = {form: _create_accounts(number, create) for number, (form, create) in enumerate(_FORMS.items())}
    with edge_host.running(MAX_COLD_READS="5000") as host:
        _load(
            host, _create_accounts(len(accounts_by_form), edge_accounts.create_edge)
        )  # Envoy allocates more for the first names
        return Result([row for form, accounts in accounts_by_form.items() for row in _rows(host, form, accounts)])


def _rows(host: Host, form: str, accounts: Accounts) -> list[Row]:
    allocated, estimated = host.allocated(), host.estimated()
    _load(host, accounts)
    used = (host.allocated() - allocated) / _NAMES
    expected = (host.estimated() - estimated) / _NAMES
    return [
        results.at_most(_MOST, f"memory of {form}: the estimate", used, expected, results.kib),
        results.at_least(_LEAST, "… not far below it", used, expected, results.kib),
    ]


def _load(host: Host, accounts: Accounts) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(host.visit, map(accounts.find_name, range(_NAMES))))
    if "" in answers or "404" in answers:
        raise RuntimeError(f"Names are not served: {set(answers)}.")
    time.sleep(_SETTLING)


def _create_accounts(number: int, create: Create | None) -> Accounts:
    accounts = Accounts(_TABLE, _DOMAIN, prefix=f"f{number:02}", create=create)
    accounts.add(_NAMES)
    return accounts


def _create_edge(token: str, name: str, *, routes: int, response: Mapping[str, Any], **modules: Any) -> None:
    """Create an edge. Its routes have the same modules and response."""
    backend = requests.create("/backends/http_response", token, response)["id"]
    edge = requests.create("/edges/https", token, {"hostports": [f"{name}:443"]})["id"]
    for number in range(routes):
        path = f"/{number}" if number else "/"
        route = {"match_type": "path_prefix", "match": path, "backend": {"backend_id": backend}, **modules}
        requests.create(f"/edges/https/{edge}/routes", token, route)


def _create_group(token: str, name: str) -> None:
    group = requests.create("/backends/tunnel_group", token, {"labels": {"a": "b"}})["id"]
    edge = requests.create("/edges/https", token, {"hostports": [f"{name}:443"]})["id"]
    route = {"match_type": "path_prefix", "match": "/", "backend": {"backend_id": group}}
    requests.create(f"/edges/https/{edge}/routes", token, route)


def _create_weighted(token: str, name: str, *, count: int) -> None:
    backend_ids = [requests.create("/backends/http_response", token, {"body": "hello"})["id"] for _ in range(count)]
    backend = requests.create("/backends/weighted", token, {"backends": dict.fromkeys(backend_ids, 1)})["id"]
    edge = requests.create("/edges/https", token, {"hostports": [f"{name}:443"]})["id"]
    route = {"match_type": "path_prefix", "match": "/", "backend": {"backend_id": backend}}
    requests.create(f"/edges/https/{edge}/routes", token, route)


_SMALL = {"body": "hello"}
_FORMS: Mapping[str, Create | None] = {
    "a tunnel": None,
    "an edge with a response": partial(_create_edge, routes=1, response=_SMALL),
    "an edge with the largest response": partial(_create_edge, routes=1, response={"body": "x" * (16 << 10)}),
    "an edge with 50 routes": partial(_create_edge, routes=50, response=_SMALL),
    "an edge with the largest filter": partial(_create_edge, routes=1, response=_SMALL, user_agent_filter=LARGEST),
    "an edge with the largest filter of any case": partial(
        _create_edge, routes=1, response=_SMALL, user_agent_filter=_LARGEST_CASELESS
    ),
    "an edge with a small filter": partial(
        _create_edge, routes=1, response=_SMALL, user_agent_filter={"deny": ["curl", "wget"]}
    ),
    "an edge with a tunnel group": _create_group,
    "an edge with ten responses": partial(_create_weighted, count=10),
}
