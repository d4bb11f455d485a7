"""Tunnel groups by their own rules: which online tunnels are theirs, and that one look finds them for all groups."""

from collections.abc import Mapping
from typing import Any

from chalicelib import ids
from chalicelib.model.tunnels import tunnels
from chalicelib.model.tunnels.tunnels import BackendTunnel
from tests.queries import queries
from tests.refusals import assert_invalid
from tests.samples import BEGUN
from tests.transports import Client

PATH = "/backends/tunnel_group"
BASE = "http://localhost"


def online(client: Client, labels: Mapping[str, str], lease: int = 600) -> dict[str, str]:
    """Return the Ref of a new backend tunnel of the client's account."""
    tunnel = BackendTunnel(tunnel_session=ids.new("ts"), region="eu", forwards_to="localhost:80", labels=labels)
    id = tunnels.open_tunnel(client.account, tunnel, lease=lease)
    return {"id": id, "uri": f"{BASE}/tunnels/{id}"}


def tunnels_of(client: Client, group: Any) -> Any:
    return client.get(f"{PATH}/{group['id']}").json["tunnels"]


def test_a_group_is_shown_whole_with_the_tunnels_that_carry_all_its_labels(admin: Client) -> None:
    online(admin, {"app": "web"})
    first = online(admin, {"app": "web", "dc": "north", "rack": "7"})
    online(admin, {"app": "web", "dc": "south"})
    second = online(admin, {"dc": "north", "app": "web"})
    labels = {"app": "web", "dc": "north"}
    group = admin.create(PATH, {"description": "d", "metadata": "m", "labels": labels})
    assert group == {
        "id": group["id"],
        "uri": f"{BASE}{PATH}/{group['id']}",
        "created_at": group["created_at"],
        "description": "d",
        "metadata": "m",
        "labels": labels,
        "tunnels": [second, first],
    }
    assert admin.get(f"{PATH}/{group['id']}").json == group
    assert admin.get(PATH).json == {"backends": [group], "uri": f"{BASE}{PATH}", "next_page_uri": None}
    assert admin.get(second["uri"].removeprefix(BASE)).json["labels"] == labels


def test_tunnels_come_and_go_by_themselves(admin: Client) -> None:
    group = admin.create(PATH, {"labels": {"app": "web"}})
    assert group["tunnels"] == []
    tunnel = online(admin, {"app": "web"})
    assert tunnels_of(admin, group) == [tunnel]
    tunnels.close_tunnel(admin.account, tunnel["id"])
    assert tunnels_of(admin, group) == []


def test_labels_are_compared_exactly_and_what_has_ended_has_none(admin: Client) -> None:
    group = admin.create(PATH, {"labels": {"app": "web"}})
    online(admin, {"app": "web"}, lease=0)
    for labels in ({"App": "web"}, {"app": "Web"}, {"app": "web "}, {"app": ""}, {}):
        online(admin, labels)
    assert tunnels_of(admin, group) == []


def test_tunnels_of_agents_have_no_labels_and_are_in_no_group(admin: Client) -> None:
    BEGUN["/tunnels"](admin, "/tunnels")
    assert admin.create(PATH, {"labels": {"app": "web"}})["tunnels"] == []
    assert admin.create(PATH, {})["tunnels"] == []


def test_a_group_without_labels_has_no_tunnels(admin: Client) -> None:
    online(admin, {"app": "web"})
    online(admin, {})
    with queries() as scopes:
        group = admin.create(PATH, {})
        assert (group["labels"], group["tunnels"]) == ({}, [])
        assert admin.get(f"{PATH}/{group['id']}").json == group
        assert admin.get(PATH).json["backends"] == [group]
    assert scopes == [f"{admin.account}#{PATH}"]  # none of them looks for tunnels


def test_no_tunnel_of_another_account_is_in_a_group(admin: Client, stranger: Client) -> None:
    online(stranger, {"app": "web"})
    assert admin.create(PATH, {"labels": {"app": "web"}})["tunnels"] == []


def test_new_labels_replace_the_old_and_find_other_tunnels(admin: Client) -> None:
    online(admin, {"app": "web"})
    other = online(admin, {"dc": "north"})
    group = admin.create(PATH, {"labels": {"app": "web"}})
    changed_group = admin.patch(f"{PATH}/{group['id']}", {"labels": {"dc": "north"}}).json
    assert changed_group == {**group, "labels": {"dc": "north"}, "tunnels": [other]}
    assert admin.patch(f"{PATH}/{group['id']}", {"labels": {}}).json == changed_group
    assert admin.get(f"{PATH}/{group['id']}").json == changed_group


def test_a_list_of_groups_reads_the_tunnels_once(admin: Client) -> None:
    tunnel = online(admin, {"app": "web"})
    groups = [admin.create(PATH, {"labels": {"app": "web"}}) for _ in range(5)]
    with queries() as scopes:
        entries = admin.get(PATH).json["backends"]
    assert scopes == [f"{admin.account}#{PATH}", f"{admin.account}#/tunnels"]
    assert entries == groups[::-1]
    assert all(group["tunnels"] == [tunnel] for group in entries)


def test_every_bad_label_is_named(admin: Client) -> None:
    labels = {"": "1", "a\n": "1", "b": "1\0", "c": 1, "d": None, "e" * 256: "1", "f": "é" * 128, "g": "", "h i": "="}
    name = "must not be empty or contain control characters"
    errors = {
        "labels.": name,
        "labels.a\n": name,
        "labels.b": "must not contain control characters",
        "labels.c": "must be a string",
        "labels.d": "must be a string",
        f"labels.{'e' * 193}": "must be at most 255 bytes of UTF-8",
        "labels.f": "must be at most 255 bytes of UTF-8",
    }
    assert_invalid(admin.post(PATH, {"labels": labels}), errors)
    group = admin.create(PATH, {"labels": {"g": "", "h i": "="}})
    assert_invalid(admin.patch(f"{PATH}/{group['id']}", {"labels": labels}), errors)
    assert_invalid(admin.patch(f"{PATH}/{group['id']}", {"labels": "app=web"}), {"labels": "must be an object"})
    rule = "is not accepted here; accepted: description, metadata, labels"
    assert_invalid(admin.patch(f"{PATH}/{group['id']}", {"tunnels": []}), {"tunnels": rule})


def test_a_group_has_at_most_50_labels_of_255_bytes(admin: Client) -> None:
    labels = {f"{number:03}{'k' * 252}": "é" * 127 + "v" for number in range(50)}
    assert admin.create(PATH, {"labels": labels})["labels"] == labels
    answer = admin.post(PATH, {"labels": {**labels, "one": "more"}})
    assert_invalid(answer, {"labels": "must have at most 50 entries"})
