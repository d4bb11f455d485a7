"""Whether a tunnel may have one more channel, and that none outlives its lease."""

import asyncio
import time
from dataclasses import replace

import pytest

from chalicelib.model.tunnels import gateways
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.process.settings import Limits
from edge.ssh.online_tunnel import OnlineTunnel
from edge.ssh.tunnels import Tunnels
from edge.store.records import Grant, Opening, Unavailable
from tests.edge import served_records
from tests.edge.edge_table import EdgeTable
from tests.edge.ssh.sessions import Client

LIMITS = Limits(max_channels_per_tunnel=2, max_channels_per_account=3)
OPENING = Opening(Grant("acct_a", "sshcr_1", ()), "gw-1", "ts_1", "192.0.2.9")


@pytest.mark.parametrize(
    ("of_tunnel", "of_account", "of_others", "has_room"),
    [(0, 0, 9, True), (1, 2, 0, True), (2, 2, 0, False), (0, 3, 0, False), (0, 9, 0, False)],
)
def test_a_tunnel_and_its_account_have_so_many_channels(
    edge_table: EdgeTable, of_tunnel: int, of_account: int, of_others: int, has_room: bool
) -> None:
    tunnels = Tunnels(edge_table, LIMITS)
    tunnel = OnlineTunnel(
        ServedTunnel("acct_a", "tn_1", "gw-1", "demo.example.com"), OPENING, ("demo", 80), Client(), is_reserved=True
    )
    another, of_other = (
        replace(tunnel, record=replace(tunnel.record, account=account)) for account in ("acct_a", "acct_b")
    )
    for taking in [tunnel] * of_tunnel + [another] * (of_account - of_tunnel) + [of_other] * of_others:
        tunnels.channels.take(taking)
    assert tunnels.channels.has_room(tunnel) is has_room


def test_a_channel_that_is_given_back_makes_room(edge_table: EdgeTable) -> None:
    tunnels = Tunnels(edge_table, Limits(max_channels_per_account=1))
    tunnel = OnlineTunnel(
        ServedTunnel("acct_a", "tn_1", "gw-1", "demo.example.com"), OPENING, ("demo", 80), Client(), is_reserved=True
    )
    tunnels.channels.take(tunnel)
    assert not tunnels.channels.has_room(tunnel)
    tunnels.channels.release(tunnel)
    assert tunnels.channels.has_room(tunnel)


def test_a_gateway_that_lost_its_lease_ends_all_tunnels_and_opens_no_other(edge_table: EdgeTable) -> None:
    async def ask() -> None:
        served_records.put_account("acct_a")
        tunnels, client = Tunnels(edge_table, Limits()), Client()
        await tunnels.open(OPENING, ("demo", 80), client)
        tunnels.shut("the lease is over")
        assert (len(tunnels), client.ended_for) == (0, ["the lease is over"])
        with pytest.raises(Unavailable):
            await tunnels.open(OPENING, ("demo", 80), client)

    asyncio.run(ask())


def test_a_tunnel_that_was_being_opened_when_the_lease_was_lost_is_closed(edge_table: EdgeTable) -> None:
    def delay(operation: str, _: str) -> None:
        if operation == "TransactWriteItems":
            time.sleep(0.2)

    async def ask() -> None:
        served_records.put_account("acct_a")
        gateways.announce(Gateway("gw-1", "192.0.2.1", 7000), lease=60)
        edge_table.before = delay
        tunnels = Tunnels(edge_table, Limits())
        opening = asyncio.create_task(tunnels.open(OPENING, ("demo", 80), Client()))
        await asyncio.sleep(0.05)
        tunnels.shut("the lease is over")
        with pytest.raises(Unavailable):
            await opening
        assert (len(tunnels), edge_table.online) == (0, {})

    asyncio.run(ask())
