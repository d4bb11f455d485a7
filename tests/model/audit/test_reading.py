"""Events are found by id, key and owner in few calls, also while others write."""

import random
from typing import Any

from chalicelib import ids
from chalicelib.model.audit import partitions, reading
from chalicelib.storage.records.items import Item
from tests import records
from tests.events import mark, page, put
from tests.queries import calls
from tests.transports import Client


def test_an_event_is_read_by_its_id_in_one_call_from_whatever_shard(admin: Client) -> None:
    mark(admin.account)
    event = put(admin.account, "ak_x")
    placed = Item(partitions.list_possible(admin.account, event.id)[1], event.id, event.body)
    records.delete(event.scope, event.id)
    records.create(placed)
    with calls() as operations:
        read_event = reading.read(admin.account, event.id)
    assert (read_event and read_event.id, operations) == (event.id, ["BatchGetItem"])


def test_a_match_by_key_is_found_in_two_calls_however_many_events_there_are(admin: Client) -> None:
    for _ in range(300):
        put(admin.account, "ak_0000000000000000000000000000"[:30])
    rare = put(admin.account, (key := ids.new("ak")))
    with calls() as operations:
        first_page = reading.read_page_of_actor(admin.account, key, before=None, count=100)
    assert first_page is not None
    assert ([event.id for event in first_page[0]], operations) == ([rare.id], ["GetItem", "Query"])
    with calls() as operations:
        newest, has_more = reading.read_page(admin.account, before=None, count=100)
    assert (len(newest), has_more, operations) == (100, True, ["Query", "Query"])  # of everybody else, and of the edge


def test_an_owners_events_are_those_of_all_its_keys_deleted_ones_too(admin: Client) -> None:
    bot = admin.create("/bot_users", {"name": "deployer"})["id"]
    backend_ids = []
    for _ in range(3):
        key = admin.create("/api_keys", {"owner_id": bot})
        backend_ids.append(admin.with_token(key["token"]).create("/backends/weighted", {})["id"])
        admin.delete(f"/api_keys/{key['id']}")
    assert [event["resource_id"] for event in page(admin, f"actor_id={bot}")] == backend_ids[::-1]
    assert [event["resource_id"] for event in page(admin, f"actor_id={bot}&limit=1")] == backend_ids[::-1]


def test_an_owner_of_many_keys_is_picked_out_of_the_newest(admin: Client) -> None:
    bot = admin.create("/bot_users", {"name": "deployer"})["id"]
    keys = [admin.create("/api_keys", {"owner_id": bot}) for _ in range(21)]
    backend_ids = [admin.with_token(key["token"]).create("/backends/weighted", {})["id"] for key in keys[::10]]
    assert [event["resource_id"] for event in page(admin, f"actor_id={bot}")] == backend_ids[::-1]


def test_who_pages_while_two_write_misses_nothing_and_sees_nothing_twice(admin: Client) -> None:
    mark(admin.account)
    start = [put(admin.account, "ak_x", random.randrange(9)).id for _ in range(40)]
    page_ids: list[str] = []
    new_ids: list[str] = []
    uri = "/audit_events?limit=9"
    while uri:
        answer: Any = admin.get(uri).json
        page_ids += [event["id"] for event in answer["audit_events"]]
        for writer in ("ak_x", "ak_y"):
            new_ids.append(put(admin.account, writer, random.randrange(9)).id)
        uri = (answer["next_page_uri"] or "").removeprefix("http://localhost")
    assert len(page_ids) == len({*page_ids})
    assert {*start} <= {*page_ids}
    assert not {*new_ids} & {*page_ids}  # they are newer than the page that was first
    assert [event["id"] for event in page(admin)][: len(new_ids)] == sorted(new_ids, reverse=True)
