"""Whether a tunnel may have one more channel, and that none outlives its lease."""

import asyncio
from dataclasses import replace

import pytest

from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.process.settings import Limits
from edge.ssh.online_tunnel import OnlineTunnel
from edge.ssh.tunnels import Tunnels
from edge.store.records import Grant, Opening
from tests.edge.memory import Memory
from tests.edge.ssh.auth.test_rights import Client

LIMITS = Limits(max_channels_per_tunnel=2, max_channels_per_account=3)
OPENING = Opening(Grant("acct_a", "sshcr_1", ()), "gw-1", "ts_1", "192.0.2.9")


@pytest.mark.parametrize(
    ("of_tunnel", "of_account", "of_others", "has_room"),
    [(0, 0, 9, True), (1, 2, 0, True), (2, 2, 0, False), (0, 3, 0, False), (0, 9, 0, False)],
)
def test_a_tunnel_and_its_account_have_so_many_channels(
    of_tunnel: int, of_account: int, of_others: int, has_room: bool
) -> None:
    tunnels = Tunnels(Memory(), LIMITS)
    tunnel = OnlineTunnel(
        ServedTunnel("acct_a", "tn_1", "gw-1", "demo.example.com"), OPENING, ("demo", 80), Client(), is_reserved=True
    )
    another, of_other = (replace(tunnel, record=replace(tunnel.record, account=it)) for it in ("acct_a", "acct_b"))
    for taking in [tunnel] * of_tunnel + [another] * (of_account - of_tunnel) + [of_other] * of_others:
        tunnels.channels.take(taking)
    assert tunnels.channels.has_room(tunnel) is has_room


def test_a_channel_that_is_given_back_makes_room() -> None:
    tunnels = Tunnels(Memory(), Limits(max_channels_per_account=1))
    tunnel = OnlineTunnel(
        ServedTunnel("acct_a", "tn_1", "gw-1", "demo.example.com"), OPENING, ("demo", 80), Client(), is_reserved=True
    )
    tunnels.channels.take(tunnel)
    assert not tunnels.channels.has_room(tunnel)
    tunnels.channels.release(tunnel)
    assert tunnels.channels.has_room(tunnel)


@pytest.mark.parametrize(("later", "ends"), [(-0.001, False), (0, True), (1, True)])
def test_a_tunnel_that_was_not_renewed_ends_with_its_lease(later: float, ends: bool) -> None:
    async def ask() -> None:
        tunnels, client = Tunnels(Memory(), Limits()), Client()
        tunnel = await tunnels.open(OPENING, ("demo", 80), client)
        tunnels.drop_lapsed(tunnel.lease_end + later)
        assert (len(tunnels), client.ended_for) == (not ends, ["its lease has ended"] * ends)

    asyncio.run(ask())
