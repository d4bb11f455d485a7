"""The status of an edge over HTTP: from the records, and from what edge hosts report."""

from typing import Any

import pytest

from chalicelib import ids
from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import Report
from tests.queries import calls
from tests.refusals import assert_not_found, assert_refused
from tests.transports import Answer, Client

AT, ERROR = "2036-01-01T00:00:09Z", "Envoy's own sentence."
HOSTPORTS = {
    "/edges/https": "a.tunnels.localhost:443",
    "/edges/tls": "a.tunnels.localhost:443",
    "/edges/tcp": "tunnels.localhost:20000",
}

each_kind = pytest.mark.parametrize("path", HOSTPORTS)


def edge(client: Client, path: str) -> str:
    """Return the address of a new edge with a backend that serves a name below TUNNEL_DOMAIN."""
    group = client.create("/backends/tunnel_group", {"labels": {"app": "web"}})["id"]
    address = f"{path}/{client.create(path, {'hostports': [HOSTPORTS[path]]})['id']}"
    if path == "/edges/https":
        route = client.create(f"{address}/routes", {"match_type": "path_prefix", "match": "/"})["id"]
        client.put(f"{address}/routes/{route}/backend", {"backend_id": group})
    else:
        client.put(f"{address}/backend", {"backend_id": group})
    return address


def store_trial(client: Client, address: str, **errors: str) -> int:
    """Announce an edge host, and store the result of its trial of the current revision, which is returned."""
    edge_status.announce("one", lease=60)
    revision = int(client.get(address).headers["etag"].strip('"').partition("-")[0])
    edge_status.write_trial(client.account, address.rpartition("/")[2], Report(revision, AT, "one", errors))
    return revision


def status(client: Client, address: str, **headers: str) -> Answer:
    return client.send("GET", f"{address}/status", **headers)


@each_kind
def test_an_edge_that_no_edge_host_serves_waits(admin: Client, path: str) -> None:
    expected: dict[str, Any] = {"state": "waiting", "revision": 0, "at": None, "hosts": 0, "hostports": []}
    expected |= {"backends": []} | ({"routes": []} if path == "/edges/https" else {})

    answer = status(admin, edge(admin, path))

    assert (answer.status, answer.json) == (200, expected)


@each_kind
def test_a_trial_makes_it_live(admin: Client, path: str) -> None:
    address = edge(admin, path)
    edge_status.announce("one", lease=60)
    before = status(admin, address).json
    assert (before["state"], before["revision"], before["hosts"]) == ("waiting", 0, 0)
    assert [hostport["state"] for hostport in before["hostports"]] == ["waiting"]

    revision = store_trial(admin, address)
    body = status(admin, address).json

    since = body["hostports"][0]["since"]
    empty = {"error": "", "certificate_id": "", "not_after": None}
    routes = [{**route, "id": ""} for route in body.pop("routes", [])]
    assert routes == ([{"id": "", "state": "live", "since": since, "error": ""}] if path == "/edges/https" else [])
    assert [(backend["tunnels"], backend["backend_id"].partition("_")[0]) for backend in body.pop("backends")] == [
        (0, "bkdtg")
    ]
    hostports = [{"hostport": HOSTPORTS[path], "state": "live", "since": since, **empty}]
    assert body == {"state": "live", "revision": revision, "at": AT, "hosts": 1, "hostports": hostports}


@each_kind
def test_a_trial_shows_the_sentence_of_envoy(admin: Client, path: str) -> None:
    address = edge(admin, path)

    store_trial(admin, address, **{HOSTPORTS[path]: ERROR})

    body = status(admin, address).json
    assert [body["state"], *((hostport["state"], hostport["error"]) for hostport in body["hostports"])] == [
        "refused",
        ("refused", ERROR),
    ]


@each_kind
def test_a_host_reports_what_envoy_rejects_until_it_accepts_it(admin: Client, path: str) -> None:
    address = edge(admin, path)
    id, revision = address.rpartition("/")[2], store_trial(admin, address)
    edge_status.write(admin.account, id, Report(revision, AT, "one", {HOSTPORTS[path]: ERROR}))
    assert status(admin, address).json["hostports"][0]["error"] == ERROR

    edge_status.remove(admin.account, id, "one")
    assert status(admin, address).json["state"] == "live"


def test_rejected_routes_leave_the_hostports_live(admin: Client) -> None:
    address = edge(admin, "/edges/https")
    route = admin.get(address).json["routes"][0]["id"]

    store_trial(admin, address, **{route: ERROR})

    body = status(admin, address).json
    assert [body["state"], *((entry["state"], entry["error"]) for entry in (*body["hostports"], *body["routes"]))] == [
        "partly",
        ("live", ""),
        ("refused", ERROR),
    ]


def test_the_records_decide_about_a_domain_that_is_not_proved(admin: Client) -> None:
    address = f"/edges/https/{admin.create('/edges/https', {'hostports': ['shop.example.com:443']})['id']}"
    store_trial(admin, address)

    body = status(admin, address).json

    assert (body["state"], body["hostports"][0]["error"]) == (
        "unproved",
        "The account has not proved the domain: verify its reservation.",
    )


@each_kind
def test_after_a_change_the_edge_waits_until_its_trial(admin: Client, path: str) -> None:
    address = edge(admin, path)
    former = store_trial(admin, address)

    admin.patch(address, {"description": "new"})
    waiting = status(admin, address).json
    assert (waiting["state"], waiting["revision"]) == ("waiting", former)

    store_trial(admin, address)
    live = status(admin, address).json
    assert (live["state"], live["revision"]) == ("live", former + 1)


def test_a_change_of_a_route_or_of_a_module_is_a_change_of_the_edge(admin: Client) -> None:
    address = edge(admin, "/edges/https")
    store_trial(admin, address)
    route = admin.create(f"{address}/routes", {"match_type": "path_prefix", "match": "/other"})
    assert status(admin, address).json["state"] == "waiting"
    store_trial(admin, address)
    admin.put(f"{address}/routes/{route['id']}/user_agent_filter", {"deny": ["bot"]})
    assert status(admin, address).json["state"] == "waiting"


def test_a_client_that_polls_receives_only_changes(admin: Client) -> None:
    address = edge(admin, "/edges/tls")
    store_trial(admin, address)
    etag = status(admin, address).headers["etag"]
    answer = status(admin, address, If_None_Match=etag)
    assert (answer.status, answer.text, answer.headers["etag"]) == (304, "", etag)

    admin.patch(address, {"description": "new"})
    changed = status(admin, address, If_None_Match=etag)
    assert (changed.status, changed.json["state"]) == (200, "waiting")
    edge_status.announce("one", lease=0)
    alone = status(admin, address, If_None_Match=changed.headers["etag"])
    assert (alone.status, alone.json["hosts"], alone.json["hostports"]) == (200, 0, [])


@each_kind
def test_an_unknown_edge_and_one_with_modules_alone_have_none(admin: Client, stranger: Client, path: str) -> None:
    id = ids.new({"/edges/https": "edghts", "/edges/tls": "edgtls", "/edges/tcp": "edgtcp"}[path])
    assert_not_found(status(admin, f"{path}/{id}"), path)
    module = "tls_termination" if path == "/edges/https" else "backend"
    assert admin.put(f"{path}/{id}/{module}", {}).status == 200
    assert_not_found(status(admin, f"{path}/{id}"), path)
    assert_not_found(status(stranger, edge(admin, path)), path)


def test_it_takes_a_key_that_reads_edges(admin: Client) -> None:
    address = edge(admin, "/edges/tcp")
    reads = admin.with_token(admin.create("/api_keys", {"scopes": ["edges:read"]})["token"])
    writes = admin.with_token(admin.create("/api_keys", {"scopes": ["edges:write", "backends:read"]})["token"])

    assert status(reads, address).status == 200
    missing = f"edges:read@{address.rpartition('/')[2]}"
    assert_refused(status(writes, address), 403, "forbidden", f"This API key lacks the scope {missing}.")


def test_without_an_edge_host_it_costs_the_edge_and_the_hosts(admin: Client) -> None:
    address = edge(admin, "/edges/https")
    with calls() as operations:
        status(admin, address)

    assert operations == ["GetItem", "GetItem", "Query"]


def test_it_costs_the_reports_and_the_records_of_the_edge(admin: Client) -> None:
    address = edge(admin, "/edges/https")
    store_trial(admin, address)
    with calls() as operations:
        status(admin, address)

    assert operations[:4] == ["GetItem", "GetItem", "Query", "BatchGetItem"]
    assert sorted(operations[4:]) == ["BatchGetItem"] * 3 + ["Query"] * 3
