"""Shards of events: no partition key takes more than its units, and nothing is left out or listed twice."""

import io
import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse

from chalicelib import ids, operations
from chalicelib.model import audit, events, shards
from chalicelib.model.audit import Actor, Trail
from chalicelib.model.changes import Change
from chalicelib.storage import aws, dynamodb
from chalicelib.storage.dynamodb import Write
from chalicelib.storage.items import Item
from tests import records
from tests.queries import calls
from tests.resources.test_audit_events import page
from tests.samples import BODIES
from tests.transports import Client

_UNITS = 1000  # that a partition key takes in a second


def put(account: str, key: str, shard: int = 0) -> Item:
    """Put an event of a key as the product does, into a shard, and return it."""
    by, changed = (
        Trail(Actor("api_key", key, "usr_x", "ada")),
        Item(f"{account}#/backends/weighted", ids.new("bkdwd"), {}),
    )
    made = audit.event(by, changed, "create", "", (), {})
    placed = Item(
        shards.scope(account, shard),
        made.id,
        made.body,
        expires=made.expires,
        indexed=made.indexed,
        acted=f"{account}#{audit.acting(key, shard)}",
    )
    records.create(placed)
    return placed


def mark(account: str) -> None:
    dynamodb.do(Write.put({"scope": shards.scope(account, 0), "id": shards.MARK, "body": {"shards": shards.COUNT}}))


@contextmanager
def limited() -> Iterator[tuple[Counter[str], list[str]]]:
    """Turn each transaction away that would take a partition key, of the table or an index, above its units.

    Yield the units that were spent by key, all within one second, and the names of the keys for which it was done. What
    is written is not kept: the store in process copies itself for each transaction.
    """
    spent: Counter[str] = Counter()
    turned_away: list[str] = []

    def hold(params: Any, **_: object) -> Any:
        costs = [cost(action) for action in json.loads(params["body"])["TransactItems"]]
        hot = [{key for key, units in cost.items() if spent[key] + units > _UNITS} for cost in costs]
        if any(hot):
            turned_away.extend(key for keys in hot for key in keys)
            reasons = [{"Code": "ThrottlingError" if keys else "None"} for keys in hot]
            body = {"__type": "TransactionCanceledException", "CancellationReasons": reasons}
            return AWSResponse("http://localhost", 400, {}, io.BytesIO()), {
                "Error": {"Code": "TransactionCanceledException", "Message": ""},
                "ResponseMetadata": {"HTTPStatusCode": 400},
                **body,
            }
        for each in costs:
            spent.update(each)
        return AWSResponse("http://localhost", 200, {}, io.BytesIO()), {"ResponseMetadata": {"HTTPStatusCode": 200}}

    events = aws.client("dynamodb").meta.events
    events.register("before-call.dynamodb.TransactWriteItems", hold)
    try:
        yield spent, turned_away
    finally:
        events.unregister("before-call.dynamodb.TransactWriteItems", hold)


def cost(action: dict[str, Any]) -> dict[str, int]:
    """Return the units of an action by partition key: two for each KB in a transaction, one in each index."""
    ((name, request),) = action.items()
    if name != "Put":
        return {request["Key"]["scope"]["S"]: 2}
    item = request["Item"]
    size = -(-len(json.dumps(item)) // 1024)  # its JSON is longer than what DynamoDB counts
    indexes = {f"{it}={item[it]['S']}": size for it in ("indexed", "acted") if it in item}
    return {item["scope"]["S"]: 2 * size, **indexes}


def test_a_thousand_changes_in_a_second_are_written_with_no_key_above_its_units(stranger: Client) -> None:
    account, by = ids.new("acct"), Trail(Actor("api_key", ids.new("ak"), ids.new("usr"), "ada"))
    with limited() as (spent, turned_away):
        for _ in range(1000):
            id = ids.new("bkdwd")
            apart = Item(f"{account}#/backends/{id}", id, {"backends": {}})  # the resources' own is not the question
            Change(by).put(apart).commit()
    assert max(spent.values()) <= _UNITS
    assert len(turned_away) == 1
    first, *others = (shards.scope(account, shard) for shard in range(shards.COUNT))
    assert spent[first] > _UNITS - 10  # until it was hot
    assert sum(spent[scope] for scope in (first, *others)) == 2 * 1000
    assert shards.is_busy(account)


def test_a_busy_account_is_listed_as_a_quiet_one(admin: Client) -> None:
    before, key = page(admin), f"ak_{admin.token[:27]}"
    mark(admin.account)
    made = [put(admin.account, key, random.randrange(shards.COUNT)).id for _ in range(60)]
    listed = [event["id"] for event in page(admin)]
    assert listed == [*sorted(made, reverse=True), *(event["id"] for event in before)]
    for limit in (1, 7, 100):
        assert [event["id"] for event in page(admin, f"limit={limit}")] == listed
        assert [event["id"] for event in page(admin, f"limit={limit}&actor_id={key}")] == listed[:60]
    assert admin.get(f"/audit_events/{made[0]}").status in (200, 404)


def test_an_event_is_read_by_its_id_in_one_call_from_whatever_shard(admin: Client) -> None:
    mark(admin.account)
    made = put(admin.account, "ak_x")
    placed = Item(shards.scope(admin.account, shards.of(made.id)), made.id, made.body)
    records.delete(made.scope, made.id)
    records.create(placed)
    with calls() as seen:
        found = events.read(admin.account, made.id)
    assert (found and found.id, seen) == (made.id, ["BatchGetItem"])


def test_the_newest_of_a_quiet_account_are_read_in_one_call_while_the_edge_cannot_act_for_it(admin: Client) -> None:
    account, user, token = operations.create_account("quiet", "ada")
    quiet = replace(admin, account=account.id, user=user.id).with_token(token)
    made = quiet.create("/backends/weighted", {})["id"]
    for limit, has_more in ((100, False), (1, True)):
        with calls() as seen:
            newest, more = events.page(account.id, before=None, count=limit)
        assert (newest[0].body["resource_id"], more, seen) == (made, has_more, ["Query"])
    with calls() as seen:
        assert len(events.page(account.id, before=newest[0].id, count=100)[0]) == 3
    assert seen == ["Query", "BatchGetItem"]
    assert len(page(quiet)) == len(page(quiet, "limit=1")) == 4


@pytest.mark.parametrize("kind", ["/ssh_credentials", "/ssh_user_certificates", "/reserved_domains", "a demo tunnel"])
def test_what_the_edge_writes_is_listed_as_soon_as_it_can_act_for_an_account(admin: Client, kind: str) -> None:
    account, user, token = operations.create_account("quiet", "ada")
    quiet = replace(admin, account=account.id, user=user.id).with_token(token)
    body = BODIES[kind](quiet) if kind in BODIES else {}
    assert shards.marks(account.id) == {shards.WITHOUT_EDGE}
    if kind in BODIES:
        quiet.create(kind, body)
    else:
        operations.open_demo_tunnel(account.id, {})
    assert shards.marks(account.id) == frozenset()
    tunnel = {"tunnel_session": "ts", "region": "r", "forwards_to": ""}
    Change(audit.EDGE).put(Item(f"{account.id}#/tunnels", ids.new("tn"), tunnel)).commit()
    assert page(quiet)[0]["actor"]["type"] == "edge"
    mark(account.id)
    assert page(quiet, "limit=1")[0]["actor"]["type"] == "edge"


def test_a_match_by_key_is_found_in_two_calls_however_many_events_there_are(admin: Client) -> None:
    for _ in range(300):
        put(admin.account, "ak_0000000000000000000000000000"[:30])
    rare = put(admin.account, (key := ids.new("ak")))
    with calls() as seen:
        found = events.page_of_actor(admin.account, key, before=None, count=100)
    assert found is not None
    assert ([event.id for event in found[0]], seen) == ([rare.id], ["GetItem", "Query"])
    with calls() as seen:
        newest, has_more = events.page(admin.account, before=None, count=100)
    assert (len(newest), has_more, seen) == (100, True, ["Query", "Query"])  # of everybody else, and of the edge


def test_an_owners_events_are_those_of_all_its_keys_deleted_ones_too(admin: Client) -> None:
    bot = admin.create("/bot_users", {"name": "deployer"})["id"]
    made = []
    for _ in range(3):
        key = admin.create("/api_keys", {"owner_id": bot})
        made.append(admin.with_token(key["token"]).create("/backends/weighted", {})["id"])
        admin.delete(f"/api_keys/{key['id']}")
    assert [event["resource_id"] for event in page(admin, f"actor_id={bot}")] == made[::-1]
    assert [event["resource_id"] for event in page(admin, f"actor_id={bot}&limit=1")] == made[::-1]


def test_an_owner_of_many_keys_is_picked_out_of_the_newest(admin: Client) -> None:
    bot = admin.create("/bot_users", {"name": "deployer"})["id"]
    keys = [admin.create("/api_keys", {"owner_id": bot}) for _ in range(21)]
    made = [admin.with_token(key["token"]).create("/backends/weighted", {})["id"] for key in keys[::10]]
    assert [event["resource_id"] for event in page(admin, f"actor_id={bot}")] == made[::-1]


def test_who_pages_while_two_write_misses_nothing_and_sees_nothing_twice(admin: Client) -> None:
    mark(admin.account)
    start = [put(admin.account, "ak_x", random.randrange(shards.COUNT)).id for _ in range(40)]
    seen: list[str] = []
    written: list[str] = []
    uri = "/audit_events?limit=9"
    while uri:
        answer: Any = admin.get(uri).json
        seen += [event["id"] for event in answer["audit_events"]]
        for writer in ("ak_x", "ak_y"):
            written.append(put(admin.account, writer, random.randrange(shards.COUNT)).id)
        uri = (answer["next_page_uri"] or "").removeprefix("http://localhost")
    assert len(seen) == len({*seen})
    assert {*start} <= {*seen}
    assert not {*written} & {*seen}  # they are newer than the page that was first
    assert [event["id"] for event in page(admin)][: len(written)] == sorted(written, reverse=True)
