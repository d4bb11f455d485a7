"""The renewal of leases while the store fails for some of them."""

import asyncio
from collections.abc import Sequence

import pytest

from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.process.settings import Limits
from edge.ssh.leases import Leases
from edge.ssh.tunnels import Tunnels
from edge.store.records import Opening, Unavailable
from tests.edge.memory import Memory
from tests.edge.ssh.auth.test_rights import GRANT, Client


class PartlyAway(Memory):
    """A store that fails for the batch of one tunnel."""

    failing = ""

    def renew(self, online: Sequence[ServedTunnel], *, lease: int) -> frozenset[str]:
        if self.failing in {it.id for it in online}:
            raise Unavailable
        return super().renew(online, lease=lease)


def test_a_failed_batch_is_raised_after_the_others_are_renewed() -> None:
    async def run() -> list[bool]:
        store = PartlyAway(tunnel_domain="example.com", keys={"key": GRANT})
        tunnels = Tunnels(store, Limits())
        for number in range(60):
            name = f"a{number}.example.com"
            opening = Opening(GRANT, "gw-1", "ts_1", "192.0.2.9", name, f"https://{name}")
            await tunnels.open(opening, (name, 80), Client())
        before = [it.lease_end for it in tunnels.online]
        store.failing = tunnels.online[0].id
        with pytest.raises(Unavailable):
            await Leases(tunnels, store, Limits()).renew()
        return [it.lease_end > end for it, end in zip(tunnels.online, before, strict=True)]

    assert asyncio.run(run()) == [*[False] * 50, *[True] * 10]
