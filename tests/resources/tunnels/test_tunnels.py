"""Tunnels (SPEC 2.8, 4.7): what is online, as both versions show it, and the writing side of tunnel servers."""

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.model.tunnels import gateways
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import AgentTunnel, BackendTunnel, close_tunnel, open_tunnel, renew_lease
from tests.gateway_leases import set_lease
from tests.queries import calls, queries
from tests.transports import Client

BASE, GROUPS = "http://localhost", "/backends/tunnel_group"


def agent_tunnel(**changes: str) -> AgentTunnel:
    fields = {
        "tunnel_session": ids.new("ts"),
        "endpoint": ids.new("ep"),
        "region": "eu",
        "proto": "https",
        "public_url": "https://a.example",
        "forwards_to": "http://localhost:80",
    }
    return AgentTunnel(**{**fields, **changes})  # type: ignore[arg-type]


def list_ids(client: Client) -> list[str]:
    return [tunnel["id"] for tunnel in client.all("/tunnels", "tunnels")]


def test_an_agent_tunnel_carries_exactly_its_fields(admin: Client) -> None:
    tunnel = agent_tunnel(metadata="m")
    id = open_tunnel(admin.account, tunnel, lease=60)
    response = admin.get(f"/tunnels/{id}").json
    assert response == {
        "id": id,
        "public_url": "https://a.example",
        "started_at": response["started_at"],
        "metadata": "m",
        "proto": "https",
        "region": "eu",
        "tunnel_session": {
            "id": tunnel.tunnel_session,
            "uri": "",
        },
        "endpoint": {"id": tunnel.endpoint, "uri": ""},
        "forwards_to": "http://localhost:80",
    }
    assert admin.get("/tunnels").json == {"tunnels": [response], "uri": f"{BASE}/tunnels", "next_page_uri": None}


def backend_tunnel(**labels: str) -> BackendTunnel:
    return BackendTunnel(tunnel_session=ids.new("ts"), region="us", forwards_to="localhost:22", labels=labels)


def group_of(client: Client, id: str) -> Any:
    """Return the Ref of the group that a tunnel serves, or None."""
    return client.get(f"/tunnels/{id}").json.get("backends")


def test_a_backend_tunnel_carries_labels_and_no_group_where_it_serves_none(admin: Client) -> None:
    tunnel = backend_tunnel(app="web")
    id = open_tunnel(admin.account, tunnel, lease=60)
    response = admin.get(f"/tunnels/{id}").json
    assert response == {
        "id": id,
        "started_at": response["started_at"],
        "metadata": "",
        "region": "us",
        "tunnel_session": {"id": tunnel.tunnel_session, "uri": ""},
        "labels": {"app": "web"},
        "forwards_to": "localhost:22",
    }
    assert admin.get("/tunnels").json["tunnels"] == [response]


def test_a_backend_tunnel_names_the_oldest_group_that_its_labels_match_now(admin: Client, stranger: Client) -> None:
    id = open_tunnel(admin.account, backend_tunnel(app="web", dc="north"), lease=60)
    stranger.create(GROUPS, {"labels": {"app": "web"}})
    for labels in ({}, {"app": "db"}, {"app": "web", "dc": "south"}):
        admin.create(GROUPS, {"labels": labels})
    assert group_of(admin, id) is None
    older, newer = (admin.create(GROUPS, {"labels": labels}) for labels in ({"app": "web"}, {"dc": "north"}))
    assert group_of(admin, id) == {"id": older["id"], "uri": older["uri"]}
    admin.patch(f"{GROUPS}/{older['id']}", {"labels": {"app": "db"}})
    assert group_of(admin, id) == {"id": newer["id"], "uri": newer["uri"]}
    admin.delete(f"{GROUPS}/{newer['id']}")
    assert group_of(admin, id) is None


def test_groups_and_tunnels_agree_on_who_serves_whom(admin: Client) -> None:
    for labels in ({"app": "web"}, {"app": "web", "dc": "north"}, {"app": "db"}, {}):
        open_tunnel(admin.account, backend_tunnel(**labels), lease=60)
        admin.create(GROUPS, {"labels": labels})
    open_tunnel(admin.account, agent_tunnel(), lease=60)
    groups = admin.get(GROUPS).json["backends"]
    serving = {
        tunnel["id"]: {"id": group["id"], "uri": group["uri"]} for group in groups for tunnel in group["tunnels"]
    }
    tunnels = admin.get("/tunnels").json["tunnels"]
    assert {tunnel["id"]: tunnel["backends"] for tunnel in tunnels if "backends" in tunnel} == serving
    assert len(serving) == 3


def test_a_list_of_tunnels_reads_the_groups_once_and_only_where_a_tunnel_has_labels(admin: Client) -> None:
    admin.create(GROUPS, {"labels": {"app": "web"}})
    open_tunnel(admin.account, agent_tunnel(), lease=60)
    open_tunnel(admin.account, backend_tunnel(), lease=60)
    with queries() as scopes:
        list_ids(admin)
    assert scopes == [f"{admin.account}#/tunnels"]
    for _ in range(3):
        open_tunnel(admin.account, backend_tunnel(app="web"), lease=60)
    with queries() as scopes:
        list_ids(admin)
    assert scopes == [f"{admin.account}#/tunnels", f"{admin.account}#{GROUPS}"]


def test_version_0_shows_the_other_metadata_and_nothing_else_differs(admin: Client) -> None:
    id = open_tunnel(admin.account, agent_tunnel(metadata="two", metadata_0="zero"), lease=60)
    two = admin.get(f"/tunnels/{id}").json
    zero = admin.send("GET", f"/tunnels/{id}", Service_Version="0").json
    assert (two["metadata"], zero["metadata"]) == ("two", "zero")
    assert {**zero, "metadata": "two"} == two
    assert admin.send("GET", "/tunnels", Service_Version="0").json["tunnels"] == [zero]


def test_a_closed_tunnel_is_gone(admin: Client) -> None:
    id = open_tunnel(admin.account, agent_tunnel(), lease=60)
    assert close_tunnel(admin.account, id) is True
    assert admin.get(f"/tunnels/{id}").status == 404
    assert close_tunnel(admin.account, id) is False


def test_a_tunnel_is_gone_as_soon_as_its_lease_ran_out_unless_it_is_renewed(admin: Client) -> None:
    short, renewed = (open_tunnel(admin.account, agent_tunnel(), lease=2) for _ in range(2))
    assert list_ids(admin) == [renewed, short]
    assert renew_lease(admin.account, renewed, lease=60) is True
    while admin.get(f"/tunnels/{short}").status == 200:
        time.sleep(0.2)
    assert list_ids(admin) == [renewed]
    assert renew_lease(admin.account, short, lease=60) is False
    assert close_tunnel(admin.account, short) is False


def test_no_other_account_can_see_renew_or_close_a_tunnel(admin: Client, stranger: Client) -> None:
    id = open_tunnel(admin.account, agent_tunnel(), lease=60)
    assert stranger.get(f"/tunnels/{id}").status == 404
    assert list_ids(stranger) == []
    assert renew_lease(stranger.account, id, lease=60) is False
    assert close_tunnel(stranger.account, id) is False
    assert list_ids(admin) == [id]


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_pages_are_full_although_expired_tunnels_lie_between(admin: Client, limit: int) -> None:
    online = [open_tunnel(admin.account, agent_tunnel(), lease=0 if i % 3 else 60) for i in range(12)][::3]
    uri, pages = f"/tunnels?limit={limit}", []
    while uri:
        page = admin.get(uri).json
        pages.append([tunnel["id"] for tunnel in page["tunnels"]])
        uri = (page["next_page_uri"] or "").removeprefix(BASE)
    assert [id for page in pages for id in page] == online[::-1]
    assert all(len(page) == limit for page in pages[:-1])
    assert pages[-1]


def test_a_page_behind_many_expired_tunnels_is_read_in_two_queries(admin: Client) -> None:
    online = open_tunnel(admin.account, agent_tunnel(), lease=60)
    for _ in range(12):
        open_tunnel(admin.account, agent_tunnel(), lease=0)
    with queries() as scopes:
        page = admin.get("/tunnels?limit=1").json
    assert [tunnel["id"] for tunnel in page["tunnels"]] == [online]
    assert page["next_page_uri"] is None
    assert scopes == [f"{admin.account}#/tunnels"] * 2


@pytest.fixture
def gateway(admin: Client) -> Gateway:
    gateway = Gateway("gw-1", "192.0.2.1", 7000)
    gateways.announce(gateway, lease=60)
    return gateway


def test_a_tunnel_is_online_while_its_gateway_is_live(admin: Client, gateway: Gateway) -> None:
    id = open_tunnel(admin.account, agent_tunnel(gateway=gateway.id))
    assert (list_ids(admin), admin.get(f"/tunnels/{id}").status) == ([id], 200)
    set_lease(gateway.id, 0)
    assert (list_ids(admin), admin.get(f"/tunnels/{id}").status) == ([], 404)
    set_lease(gateway.id, 60)
    assert (list_ids(admin), admin.get(f"/tunnels/{id}").status) == ([id], 200)
    gateways.leave(gateway.id)
    set_lease(gateway.id, 60)  # an ended gateway is not live, whatever its lease
    assert (list_ids(admin), admin.get(f"/tunnels/{id}").status) == ([], 404)
    gateways.remove(gateway.id)
    assert (list_ids(admin), admin.get(f"/tunnels/{id}").status) == ([], 404)


def test_a_tunnel_of_an_earlier_version_is_online_by_its_own_lease(admin: Client, gateway: Gateway) -> None:
    online = open_tunnel(admin.account, agent_tunnel(gateway=gateway.id), lease=60)
    open_tunnel(admin.account, agent_tunnel(gateway=gateway.id), lease=0)
    set_lease(gateway.id, 0)
    assert list_ids(admin) == [online]


def test_the_tunnels_of_groups_follow_the_gateway(admin: Client, gateway: Gateway) -> None:
    group = admin.create(GROUPS, {"labels": {"app": "web"}})["id"]
    tunnel = replace(backend_tunnel(app="web"), gateway=gateway.id)
    id = open_tunnel(admin.account, tunnel)
    assert [tunnel["id"] for tunnel in admin.get(f"{GROUPS}/{group}").json["tunnels"]] == [id]
    set_lease(gateway.id, 0)
    assert admin.get(f"{GROUPS}/{group}").json["tunnels"] == []


def test_the_gateways_of_a_page_are_read_in_one_call(admin: Client, gateway: Gateway) -> None:
    other = replace(gateway, id="gw-2")
    gateways.announce(other, lease=60)
    for number in range(6):
        open_tunnel(admin.account, agent_tunnel(gateway=("gw-1", "gw-2")[number % 2]))
    with calls() as operations:
        assert len(list_ids(admin)) == 6
    assert operations.count("BatchGetItem") == 1


@pytest.mark.parametrize("limit", [1, 3])
def test_pages_are_full_although_tunnels_of_dead_gateways_lie_between(
    admin: Client, gateway: Gateway, limit: int
) -> None:
    gateways.announce(replace(gateway, id="gw-2"), lease=0)
    online = [open_tunnel(admin.account, agent_tunnel(gateway="gw-2" if i % 3 else "gw-1")) for i in range(12)][::3]
    uri, pages = f"/tunnels?limit={limit}", []
    while uri:
        page = admin.get(uri).json
        pages.append([tunnel["id"] for tunnel in page["tunnels"]])
        uri = (page["next_page_uri"] or "").removeprefix(BASE)
    assert [id for page in pages for id in page] == online[::-1]
    assert all(len(page) == limit for page in pages[:-1])


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
def test_tunnels_are_read_only_over_http(admin: Client, method: str) -> None:
    answer = admin.send(method, "/tunnels" if method == "POST" else f"/tunnels/{ids.new('tn')}", {})
    assert (answer.status, answer.headers["allow"]) == (405, "GET")
    assert json.loads(answer.text)["error_code"] == "method_not_allowed"
