"""Which tunnels a change in the records may end, and that a right which is gone ends them."""

import asyncio
from collections.abc import Callable

import pytest

from chalicelib.model.tunnels import gateways
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from chalicelib.storage.records.change_log import ItemKey
from edge.process.settings import Limits
from edge.ssh.auth.rights import concerns
from edge.ssh.lease import GatewayLease
from edge.ssh.rights_checks import RightsChecks
from edge.ssh.tunnels import Tunnels
from edge.store.records import Grant, Opening
from tests.edge.edge_table import EdgeTable
from tests.edge.ssh.sessions import Client

TUNNEL = ServedTunnel("acct_a", "tn_1", "gw-1", "demo.example.com")


@pytest.mark.parametrize(
    ("scope", "id", "concerned"),
    [
        ("accounts", "acct_a", True),
        ("accounts", "acct_b", False),
        ("acct_a#/tunnels", "tn_1", True),
        ("acct_a#/tunnels", "tn_2", False),
        ("acct_b#/tunnels", "tn_1", False),
        ("acct_a#/tls_certificates", "cert_1", False),
        ("acct_a#/ssh_credentials", "sshcr_9", True),
        ("acct_b#/ssh_credentials", "sshcr_9", False),
        ("acct_a#/bot_users", "bot_1", True),
        ("acct_a#/users", "usr_1", True),
        ("acct_a#/ssh_user_certificates", "sucrt_1", True),
        ("acct_a#/ssh_certificate_authorities", "sshca_1", True),
        ("acct_a#/ssh_certificate_authorities/sshca_1/revocations", "sshrv_1", True),
        ("edge#/gateways", "gw-1", False),
        ("edge#/banned_names", "demo.example.com", False),
    ],
)
def test_a_change_concerns_the_tunnels_whose_rights_rest_on_it(scope: str, id: str, concerned: bool) -> None:
    assert concerns(ItemKey(scope, id), TUNNEL) is concerned


GRANT = Grant("acct_a", "sshcr_1", ("bind:*.tunnels.localhost",))


@pytest.mark.parametrize(
    ("change", "is_ended"),
    [
        (lambda store: None, False),
        (lambda store: store.permit("key", Grant("acct_a", "sshcr_1", ())), False),
        (lambda store: store.permit("key", Grant("acct_a", "sshcr_1", ("bind:demo.tunnels.localhost",))), False),
        (lambda store: store.permit("key", Grant("acct_a", "sshcr_1", ("bind:other.tunnels.localhost",))), True),
        (lambda store: store.revoke(), True),
    ],
)
def test_the_sweep_ends_what_is_not_permitted_any_more(
    edge_table: EdgeTable, change: Callable[[EdgeTable], None], is_ended: bool
) -> None:
    async def ask() -> list[str]:
        store, client = edge_table, Client()
        gateways.announce(Gateway("gw-1", "192.0.2.1", 7000), lease=60)
        store.permit("key", GRANT)
        tunnels = Tunnels(store, Limits())
        opening = Opening(
            GRANT, "gw-1", "ts_1", "192.0.2.9", "demo.tunnels.localhost", "https://demo.tunnels.localhost"
        )
        await tunnels.open(opening, ("demo", 80), client)
        change(store)
        checks = RightsChecks(tunnels, store, Limits(rights_sweep=0), GatewayLease(60, lambda: None))
        await checks.sweep()
        assert len(tunnels) == len(store.online) == (not is_ended)
        return client.ended_for

    assert asyncio.run(ask()) == ["its credential or right to the name was revoked"] * is_ended
