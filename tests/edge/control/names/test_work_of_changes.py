"""The work for a change of one edge among many loaded edges of an account."""

import cProfile
import time
from collections.abc import Callable

import pytest

from bench import calls
from chalicelib.model.serving import account_item_keys
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.storage.records import change_log
from chalicelib.storage.records.change_log import ItemKey
from edge.control.names.name_resolver import NameResolver
from tests.transports import Client

DOMAIN = "tunnels.localhost"
FEW, MANY = 20, 60
NEW_ROUTE = ["BatchGetItem", "Query", "BatchGetItem"]  # of the edge, its routes, and the backend of the new one
MORE_FOR_A_CHANGE, MORE_FOR_A_NAME = 12, 20  # function calls for each edge that does not change


def count(work: Callable[[], object]) -> int:
    """Return the number of function calls of some work."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


def load(resolver: NameResolver, account: str, count: int) -> AccountRecords:
    records = None
    for number in range(count):
        records = resolver.read(account, f"e{number}.{DOMAIN}", records)
    assert records
    return records


def list_used(records: AccountRecords) -> dict[str, set[ItemKey]]:
    """Return the item keys that each name uses."""
    wanted = {name: account_item_keys.RecordsRequest(records.account, frozenset({name})) for name in records.names}
    return {name: account_item_keys.list_item_keys(it, records.values, DOMAIN) for name, it in wanted.items()}


@pytest.fixture
def edges(admin: Client) -> list[str]:
    return [
        admin.create("/edges/https", {"hostports": [f"e{number}.{DOMAIN}:443"]})["id"] for number in range(MANY + 1)
    ]


def test_a_change_of_an_edge_takes_little_work_for_others(admin: Client, edges: list[str]) -> None:
    resolver = NameResolver(DOMAIN)
    since = time.time()
    admin.create(f"/edges/https/{edges[0]}/routes", {"match_type": "exact_path", "match": "/a"})
    changed = {item_key for it in change_log.read_since(since - 0.001) for item_key in it.item_keys}
    before = {it: load(resolver, admin.account, it) for it in (FEW, MANY)}
    used = {it: list_used(records) for it, records in before.items()}
    work = {it: count(lambda it=it: resolver.read_changed(before[it], changed, used[it])) for it in (FEW, MANY)}  # type: ignore[misc]
    assert (work[MANY] - work[FEW]) / (MANY - FEW) <= MORE_FOR_A_CHANGE
    after = resolver.read_changed(before[MANY], changed, used[MANY])
    assert after == resolver.read_changed(before[MANY], changed) == resolver.resync(before[MANY])


@pytest.mark.parametrize(("path", "names"), [("backends", ["BatchGetItem"]), ("edges", NEW_ROUTE)])
def test_a_change_takes_few_calls(admin: Client, path: str, names: list[str]) -> None:
    backend, other = (admin.create("/backends/http_response", {"body": it}) for it in ("a", "b"))
    edge = admin.create("/edges/https", {"hostports": [f"e0.{DOMAIN}:443"]})["id"]
    route = {"match_type": "path_prefix", "match": "/", "backend": {"backend_id": backend["id"]}}
    admin.create(f"/edges/https/{edge}/routes", route)
    resolver = NameResolver(DOMAIN)
    records, since = load(resolver, admin.account, 1), time.time()
    if path == "backends":
        admin.patch(f"/backends/http_response/{backend['id']}", {"status_code": 201})
    else:
        new = {**route, "match": "/new", "backend": {"backend_id": other["id"]}}
        admin.create(f"/edges/https/{edge}/routes", new)
    changed = {item_key for it in change_log.read_since(since - 0.001) for item_key in it.item_keys}
    with calls.recording() as made:
        resolver.read_changed(records, changed, list_used(records))
    assert [it.operation for it in made] == names


def test_a_name_takes_little_work_for_those_that_are_loaded(admin: Client, edges: list[str]) -> None:
    resolver, name = NameResolver(DOMAIN), f"e{MANY}.{DOMAIN}"
    known = {it: load(resolver, admin.account, it) for it in (FEW, MANY)}
    work = {it: count(lambda it=it: resolver.read(admin.account, name, known[it])) for it in (FEW, MANY)}  # type: ignore[misc]
    assert (work[MANY] - work[FEW]) / (MANY - FEW) <= MORE_FOR_A_NAME
    records = resolver.read(admin.account, name, known[MANY])
    assert records == resolver.resync(records)
