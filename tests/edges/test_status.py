"""The status of an edge: what edge hosts say of it, compared with its present revision."""

from dataclasses import replace
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import BackendStatus, EdgeStatus, HostportStatus, RouteStatus
from tests.queries import calls
from tests.refusals import assert_not_found, assert_refused
from tests.transports import Answer, Client

KINDS = ["/edges/https", "/edges/tls", "/edges/tcp"]
AT, SINCE, END = "2026-01-01T00:00:09Z", "2026-01-01T00:00:07Z", "2027-01-01T00:00:00Z"
ERROR = "The engine's own sentence."
LIVE = EdgeStatus(
    "live",
    1,
    AT,
    (
        HostportStatus("a.example.com:443", "live", SINCE, "", "cert_1", END),
        HostportStatus("b.example.com:443", "refused", AT, ERROR),
    ),
    (RouteStatus("edghtsrt_1", "refused", AT, ERROR),),
    (BackendStatus("bkdtg_1", 2),),
)
HOSTPORTS = [
    {
        "hostport": "a.example.com:443",
        "state": "live",
        "since": SINCE,
        "error": "",
        "certificate_id": "cert_1",
        "not_after": END,
    },
    {
        "hostport": "b.example.com:443",
        "state": "refused",
        "since": AT,
        "error": ERROR,
        "certificate_id": "",
        "not_after": None,
    },
]
ROUTES = [{"id": "edghtsrt_1", "state": "refused", "since": AT, "error": ERROR}]
SHOWN = {"revision": 1, "at": AT, "hosts": 1, "hostports": HOSTPORTS, "routes": ROUTES}
SHOWN |= {"backends": [{"backend_id": "bkdtg_1", "tunnels": 2}]}

each_kind = pytest.mark.parametrize("path", KINDS)


def of_kind(path: str, shown: dict[str, Any]) -> dict[str, Any]:
    """Return a status as edges of a kind show it: routes are of HTTPS edges alone."""
    return {name: value for name, value in shown.items() if name != "routes" or path == KINDS[0]}


def edge(client: Client, path: str, said: EdgeStatus | None = None) -> str:
    """Return the address of a new edge, of which a living edge host says something."""
    id = client.create(path, {})["id"]
    if said:
        edge_status.announce("one", lease=60)
        edge_status.write(client.account, id, "one", said)
    return f"{path}/{id}"


def status(client: Client, address: str, **headers: str) -> Answer:
    return client.send("GET", f"{address}/status", **headers)


@each_kind
def test_an_edge_that_no_edge_host_serves_waits(admin: Client, path: str) -> None:
    nothing = {"state": "waiting", "revision": 0, "at": None, "hosts": 0, "hostports": [], "routes": [], "backends": []}

    answer = status(admin, edge(admin, path))

    assert (answer.status, answer.json) == (200, of_kind(path, nothing))


@each_kind
def test_it_tells_what_edge_hosts_say(admin: Client, path: str) -> None:
    answer = status(admin, edge(admin, path, LIVE))

    assert (answer.status, answer.json) == (200, {"state": "live", **of_kind(path, SHOWN)})


@each_kind
def test_after_a_change_the_edge_waits_until_edge_hosts_have_taken_it_up(admin: Client, path: str) -> None:
    address = edge(admin, path, LIVE)
    admin.patch(address, {"description": "new"})
    assert status(admin, address).json == {"state": "waiting", **of_kind(path, SHOWN)}

    edge_status.write(admin.account, address.rpartition("/")[2], "one", replace(LIVE, revision=2))
    assert status(admin, address).json == {"state": "live", **of_kind(path, {**SHOWN, "revision": 2})}


def test_a_change_of_a_route_or_of_a_module_is_a_change_of_the_edge(admin: Client) -> None:
    address = edge(admin, "/edges/https", replace(LIVE, revision=2))
    route = admin.create(f"{address}/routes", {"match_type": "path_prefix", "match": "/"})
    assert status(admin, address).json["state"] == "live"
    admin.put(f"{address}/routes/{route['id']}/user_agent_filter", {"deny": ["bot"]})
    assert status(admin, address).json["state"] == "waiting"


@each_kind
def test_a_change_of_the_edge_that_the_status_does_not_show_leaves_its_etag(admin: Client, path: str) -> None:
    address = edge(admin, path)
    before = status(admin, address)
    admin.patch(address, {"description": "new"})
    after = status(admin, address, If_None_Match=before.headers["etag"])
    assert (after.status, after.headers["etag"]) == (304, before.headers["etag"])

    edge_status.announce("one", lease=60)
    edge_status.write(admin.account, address.rpartition("/")[2], "one", LIVE)
    served = status(admin, address)
    assert served.headers["etag"] != before.headers["etag"]
    admin.patch(address, {"description": "newer"})
    assert status(admin, address, If_None_Match=served.headers["etag"]).status == 304


def test_whoever_polls_is_told_only_of_changes(admin: Client) -> None:
    address = edge(admin, "/edges/tls", LIVE)
    seen = status(admin, address).headers["etag"]
    same = status(admin, address, If_None_Match=seen)
    assert (same.status, same.text, same.headers["etag"]) == (304, "", seen)

    admin.patch(address, {"description": "new"})
    changed = status(admin, address, If_None_Match=seen)
    assert (changed.status, changed.json["state"]) == (200, "waiting")
    edge_status.announce("one", lease=0)
    alone = status(admin, address, If_None_Match=changed.headers["etag"])
    assert (alone.status, alone.json["hosts"]) == (200, 0)


@each_kind
def test_an_unknown_edge_and_one_with_modules_alone_have_none(admin: Client, stranger: Client, path: str) -> None:
    id = ids.new({"/edges/https": "edghts", "/edges/tls": "edgtls", "/edges/tcp": "edgtcp"}[path])
    assert_not_found(status(admin, f"{path}/{id}"), path)
    module = "tls_termination" if path == "/edges/https" else "backend"
    assert admin.put(f"{path}/{id}/{module}", {}).status == 200
    assert_not_found(status(admin, f"{path}/{id}"), path)
    assert_not_found(status(stranger, edge(admin, path, LIVE)), path)


def test_it_takes_a_key_that_reads_edges(admin: Client) -> None:
    address = edge(admin, "/edges/tcp")
    reads = admin.with_token(admin.create("/api_keys", {"scopes": ["edges:read"]})["token"])
    writes = admin.with_token(admin.create("/api_keys", {"scopes": ["edges:write", "backends:read"]})["token"])

    assert status(reads, address).status == 200
    missing = f"edges:read@{address.rpartition('/')[2]}"
    assert_refused(status(writes, address), 403, "forbidden", f"This API key lacks the scope {missing}.")


def test_it_costs_the_edge_the_hosts_and_one_read_of_what_they_say(admin: Client) -> None:
    address = edge(admin, "/edges/https", LIVE)
    with calls() as made:
        status(admin, address)

    key = "GetItem"
    assert made == [key, "GetItem", "Query", "BatchGetItem"]
