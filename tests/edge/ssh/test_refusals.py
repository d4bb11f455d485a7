"""Refused ports, as a gateway reads of them and reports them to its clients."""

import asyncio
import time

from chalicelib.model.tunnels import ends
from chalicelib.model.tunnels.tunnels import record_refusal
from chalicelib.storage.records import change_log
from edge.process import tasks
from edge.process.settings import Limits
from edge.ssh.lease import GatewayLease
from edge.ssh.online_tunnel import OnlineTunnel
from edge.ssh.rights_checks import RightsChecks
from edge.ssh.tunnels import Tunnels
from edge.store.changes import Follower
from edge.store.records import Grant, Opening
from tests.edge.edge_table import EdgeTable, fail
from tests.edge.ssh import sessions

GRANT = Grant("acct_a", "sshcr_1", ())


class Client(sessions.Client):
    """A client that hears why its port is not open."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals: asyncio.Queue[str] = asyncio.Queue()

    def on_port_refusal(self, tunnel: OnlineTunnel) -> None:
        self.refusals.put_nowait(tunnel.refusal)


def test_a_refusal_is_reported_that_the_store_does_not_return_at_once(edge_table: EdgeTable) -> None:
    failures: list[str] = []

    def fail_first_read(operation: str, body: str) -> None:
        if operation == "GetItem" and ends.gateway_scope("gw-1") in body and not failures:
            failures.append(body)
            fail()

    async def run() -> str:
        store, client = edge_table, Client()
        store.permit("key", GRANT)
        store.before = fail_first_read
        tunnels, follower = Tunnels(store, Limits()), Follower(change_log.read_since, time.time())
        name = "tunnels.localhost:20000"
        opening = Opening(GRANT, "gw-1", "ts_1", "192.0.2.9").with_name(name, f"tcp://{name}", "tcp")
        tunnel = await tunnels.open(opening, ("", 20000), client)
        record_refusal(tunnel.record, "cannot bind")
        checks = RightsChecks(tunnels, store, Limits(), GatewayLease(60, lambda: None))
        work = (task.run() for task in checks.tasks("gw-1", follower))
        following = asyncio.create_task(tasks.run_all(*work))
        try:
            return await asyncio.wait_for(client.refusals.get(), 5)
        finally:
            following.cancel()

    assert asyncio.run(run()) == "cannot bind"
    assert failures
