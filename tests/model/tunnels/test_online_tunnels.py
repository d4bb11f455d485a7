"""Online tunnels: their leases, and the names that only one of them has."""

import pytest

from chalicelib import clock
from chalicelib.model.tunnels import gateways, online_tunnels, tunnels
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from chalicelib.storage.records.unique_keys import Taken
from tests.gateway_leases import set_lease
from tests.transports import Client
from tests.tunnels import open_agent_tunnel


def list_tunnel_ids(gateway: str = "gw-1") -> list[str]:
    return [
        tunnel.id
        for tunnel in online_tunnels.read_tunnels_of_gateway(gateway)
        if not tunnel.has_lapsed(clock.seconds())
    ]


def online(account: str) -> list[str]:
    return [item.id for item in online_tunnels.list_online(account)]


def test_a_name_is_had_by_one_tunnel(admin: Client, stranger: Client) -> None:
    id = open_agent_tunnel(admin.account)
    with pytest.raises(Taken):
        open_agent_tunnel(stranger.account)
    with pytest.raises(Taken):
        open_agent_tunnel(admin.account, credential="sshcr_2")
    with pytest.raises(Taken):
        open_agent_tunnel(stranger.account, credential="sshcr_1")
    assert (online(admin.account), online(stranger.account), list_tunnel_ids()) == ([id], [], [id])


def test_a_tunnel_without_a_credential_leaves_its_name_to_no_other(admin: Client) -> None:
    open_agent_tunnel(admin.account, credential="")
    with pytest.raises(Taken):
        open_agent_tunnel(admin.account, credential="")


def test_a_tunnel_whose_lease_has_ended_leaves_its_name_to_the_next(admin: Client, stranger: Client) -> None:
    expired = open_agent_tunnel(admin.account, lease=0)
    assert list_tunnel_ids() == []
    open_agent_tunnel(stranger.account)
    assert not tunnels.renew_lease(admin.account, expired, lease=60)


def test_a_lease_of_2_0_0_is_served_and_ended(admin: Client) -> None:
    first, second = open_agent_tunnel(admin.account, name="a.tunnels.localhost"), open_agent_tunnel(admin.account)
    for scope in (f"{admin.account}#/tunnels", "edge#/gateways/gw-1/tunnels"):
        for id, end in ((first, clock.seconds()), (second, clock.seconds() + 60)):
            without = {"lease": None, "expires": end}
            dynamodb.do(Write.update(scope, id, Condition("attribute_exists(#lease)"), sets=without))

    assert online(admin.account) == [second]
    (live,) = [
        tunnel for tunnel in online_tunnels.read_tunnels_of_gateway("gw-1") if not tunnel.has_lapsed(clock.seconds())
    ]
    assert live.id == second
    online_tunnels.end_all_offline(admin.account)
    deleted = admin.get("/audit_events?action=tunnel.delete").json["audit_events"]
    assert [event["resource_id"] for event in deleted] == [first]


@pytest.mark.parametrize(
    ("own_lease", "lease_of_gateway", "is_online"),
    [(None, 60, True), (None, 0, False), (None, -60, False), (60, -60, True), (0, 60, False)],
)
def test_a_tunnel_is_online_by_its_own_lease_or_else_by_its_gateway_s(
    admin: Client, own_lease: int | None, lease_of_gateway: int, is_online: bool
) -> None:
    gateways.announce(Gateway("gw-1", "192.0.2.1", 1), lease=60)
    set_lease("gw-1", lease_of_gateway)
    id = open_agent_tunnel(admin.account, lease=own_lease)
    assert online(admin.account) == ([id] if is_online else [])
    assert [tunnel["id"] for tunnel in admin.get("/tunnels").json["tunnels"]] == ([id] if is_online else [])
    assert (online_tunnels.read(admin.account, id) is not None) is is_online


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_tunnel_of_a_gateway_that_ended_is_offline(admin: Client, is_removed: bool) -> None:
    gateways.announce(Gateway("gw-1", "192.0.2.1", 1), lease=60)
    id = open_agent_tunnel(admin.account, lease=None)
    assert online(admin.account) == [id]
    gateways.leave("gw-1")
    set_lease("gw-1", 60)
    if is_removed:
        gateways.remove("gw-1")
    assert (online(admin.account), online_tunnels.read(admin.account, id)) == ([], None)
