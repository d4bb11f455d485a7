"""The list by which the live edge finds edges: right after every change, with one write where listening changes."""

from typing import Any

import pytest

from chalicelib import __main__ as operator
from chalicelib.model.names import listed_edges
from chalicelib.storage.client import dynamodb
from chalicelib.storage.records import change_log, table
from tests.transports import Client

EDGES = ("/edges/https", "/edges/tls", "/edges/tcp")
HOSTPORTS = ["app.example.com:443"]


def list_edges() -> set[tuple[str, str]]:
    shards = (table.read_all(f"edge#/edges/{number}") for number in range(16))
    return {(item.body["account"], item.id) for shard in shards for item in shard}


def list_item_keys(since: int) -> set[tuple[str, str]]:
    """Return what the log tells, without its first so many changes."""
    changes = sorted(change_log.read_since(0), key=lambda change: change.id)
    return {(item_key.scope, item_key.id) for change in changes[since:] for item_key in change.item_keys}


@pytest.mark.parametrize("path", EDGES)
def test_an_edge_is_listed_while_it_listens(admin: Client, path: str) -> None:
    silent = admin.create(path, {})
    assert list_edges() == set()
    edge = admin.create(path, {"hostports": HOSTPORTS})
    assert list_edges() == {(admin.account, edge["id"])}
    admin.patch(f"{path}/{edge['id']}", {"hostports": []})
    assert list_edges() == set()
    admin.patch(f"{path}/{silent['id']}", {"hostports": HOSTPORTS})
    assert list_edges() == {(admin.account, silent["id"])}
    admin.delete(f"{path}/{silent['id']}")
    assert list_edges() == set()


def test_modules_of_an_edge_that_is_elsewhere_list_nothing(admin: Client) -> None:
    admin.put("/edges/tls/edgtls_2CmnlqtOcEPvUD8HzuC4r6lM6Iq/tls_termination", {"terminate_at": "edge"})
    assert list_edges() == set()


def test_edges_of_before_are_listed_once(admin: Client, capsys: pytest.CaptureFixture[str]) -> None:
    edge = admin.create("/edges/https", {"hostports": HOSTPORTS})
    admin.create("/edges/https", {})
    (write,) = listed_edges.list_edge(_item(admin, edge), None)
    dynamodb.do(write)
    operator.main(["migrate", "--apply"])
    assert (list_edges(), "1 rewritten." in capsys.readouterr().out) == ({(admin.account, edge["id"])}, True)
    operator.main(["migrate", "--apply"])
    assert "0 rewritten." in capsys.readouterr().out


def test_the_log_tells_of_each_part_of_what_an_edge_serves(admin: Client) -> None:
    edge = admin.create("/edges/https", {"hostports": HOSTPORTS})
    backends = {
        path: admin.create(f"/backends/{path}", body)["id"]
        for path, body in (
            ("http_response", {"status_code": 200}),
            ("tunnel_group", {"labels": {"a": "b"}}),
            ("weighted", {"backends": {}}),
        )
    }
    assert {(f"{admin.account}#/edges/https", edge["id"])} | {
        (f"{admin.account}#/backends/{path}", id) for path, id in backends.items()
    } <= list_item_keys(0)
    log_length, address = len(change_log.read_since(0)), f"/edges/https/{edge['id']}"
    route = admin.create(f"{address}/routes", {"match_type": "exact_path", "match": "/"})
    admin.put(f"{address}/routes/{route['id']}/user_agent_filter", {"deny": ["curl"]})
    admin.delete(f"{address}/routes/{route['id']}")
    entries = change_log.read_since(0)
    assert len(entries) == log_length + 3
    assert list_item_keys(log_length) == {(f"{admin.account}#/edges/https", edge["id"])}


def _item(admin: Client, edge: dict[str, Any]) -> Any:
    return table.read(f"{admin.account}#/edges/https", edge["id"])


def test_the_log_names_the_keys_that_give_a_name_an_account(admin: Client) -> None:
    before = len(change_log.read_since(0))
    admin.create("/edges/https", {"hostports": ["app.tunnels.localhost:443", "app.example.com:443"]})
    admin.create("/reserved_domains", {"domain": "shop.tunnels.localhost"})
    keys = {scope for scope, _ in list_item_keys(before) if scope.startswith(("domain#", "tunnel_name#"))}
    assert keys == {"tunnel_name#app.tunnels.localhost", "tunnel_name#shop.tunnels.localhost"}
