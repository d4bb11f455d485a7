"""Refused ports, as a gateway reads of them and reports them to its clients."""

import asyncio
import time
from dataclasses import dataclass

from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.process import tasks
from edge.process.settings import Limits
from edge.ssh.lease import GatewayLease
from edge.ssh.online_tunnel import OnlineTunnel
from edge.ssh.rights_checks import RightsChecks
from edge.ssh.tunnels import Tunnels
from edge.store.changes import Follower
from edge.store.records import Grant, Opening, Unavailable
from tests.edge.memory import Memory
from tests.edge.ssh import sessions

GRANT = Grant("acct_a", "sshcr_1", ())


class Client(sessions.Client):
    """A client that hears why its port is not open."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: asyncio.Queue[str] = asyncio.Queue()

    def on_port_refusal(self, tunnel: OnlineTunnel) -> None:
        self.heard.put_nowait(tunnel.refusal)


@dataclass
class BrieflyAway(Memory):
    """A store that does not answer when it is first asked for a refusal."""

    has_answered: bool = True

    def read_refusal(self, tunnel: ServedTunnel) -> str:
        self.has_answered = not self.has_answered
        if not self.has_answered:
            raise Unavailable
        return super().read_refusal(tunnel)


def test_a_refusal_is_reported_that_the_store_does_not_return_at_once() -> None:
    async def run() -> str:
        store, client = BrieflyAway(keys={"key": GRANT}), Client()
        tunnels, follower = Tunnels(store, Limits()), Follower(store, time.time())
        name = "tunnels.localhost:20000"
        opening = Opening(GRANT, "gw-1", "ts_1", "192.0.2.9").with_name(name, f"tcp://{name}", "tcp")
        tunnel = await tunnels.open(opening, ("", 20000), client)
        store.record_refusal(tunnel.record, "cannot bind")
        checks = RightsChecks(tunnels, store, Limits(), GatewayLease(store, 60, lambda: None))
        work = (it.run() for it in checks.tasks("gw-1", follower))
        following = asyncio.create_task(tasks.run_all(*work))
        try:
            return await asyncio.wait_for(client.heard.get(), 5)
        finally:
            following.cancel()

    assert asyncio.run(run()) == "cannot bind"
