"""All calls of an issuer to the store: orders, failures, revocations, deletions, and the operator's certificate."""

import asyncio
from dataclasses import dataclass, field
from typing import cast

import pytest
from cryptography import x509

from chalicelib import clock
from chalicelib.model.edges import edge_status
from chalicelib.model.names import operator_certificate
from chalicelib.model.tls import acme_accounts
from chalicelib.storage import vault
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from edge.issuer import account_keeping, key_making
from edge.issuer.account_keeping import AccountKeeper
from edge.issuer.acme_client import AcmeClient
from edge.issuer.attempt import Attempt
from edge.issuer.attempts import AttemptFailed
from edge.issuer.issuer import Issuer, Pace
from edge.issuer.order_counts import OrderCounts
from edge.issuer.retired import Retired
from edge.issuer.rules import outcomes
from edge.issuer.rules.preflight import CaAccount
from edge.process.settings import SettingError
from edge.store import threads
from tests.edge.issuer import operator_world
from tests.edge.issuer.attempting import POLICY, WindowedCa
from tests.edge.issuer.fake_ca import DOMAIN, Killed, World
from tests.edge.issuer.operator_world import NAMES, Zone
from tests.proving import prove
from tests.transports import Client

_DIRECTORY = "https://ca.example/directory"
_DAY = 86400


def work(client: Client) -> None:
    """Do everything that an issuer does, for one account, and read the operator's certificate as an edge host."""
    with pytest.MonkeyPatch.context() as setting:
        setting.setenv("ACME_DIRECTORY", _DIRECTORY)
        setting.setenv("ACME_DNS_ZONE", "acme.example")
        body = {"domain": DOMAIN, "certificate_management_policy": POLICY}
        reservation = client.create("/reserved_domains", body)
        prove(reservation["id"])
        address = f"/reserved_domains/{reservation['id']}"
        _poll(World())
        first = client.get(address).json["certificate"]["id"]
        client.patch(address, {"certificate_management_policy": {**POLICY, "private_key_type": "rsa"}})
        _poll(World(), later=61)
        edge_status.announce("host", lease=60)
        retired = Retired(_Ca(), 60, now=lambda: clock.seconds() + _DAY + 100)
        retired.replace_rejected()
        retired.delete_replaced()
        assert client.get(f"/tls_certificates/{first}").status == 404
        last = client.get(address).json["certificate"]["id"]
        revocation = {"scope": "edge#/revocations", "id": f"{client.account}/{last}", "body": {}, "revision": 1}
        dynamodb.do(Write.put(revocation))
        ca = _Ca()
        Retired(ca, 60).revoke_lost()
        assert len(ca.revoked) == 1
        client.patch(address, {"certificate_management_policy": POLICY})
        world = World(killed_at=8)
        _poll(world, later=_DAY)
        client.delete(f"{address}/certificate_management_policy")
        _poll(world, later=_DAY + 601)
        Retired(_Ca(is_away=True), 60).revoke_lost()
        Retired(_Ca(), 60, now=lambda: clock.seconds() + _DAY).revoke_lost()
        account_keeping.read_key(_DIRECTORY)
        vault._opened.clear()
        account_keeping.read_key(_DIRECTORY)
        acme_accounts.request_rotation(_DIRECTORY)
        with pytest.raises(SettingError):
            AccountKeeper(_DIRECTORY, cast(AcmeClient, _Ca()), 60).keep()
        operator_world.orders(World(names=NAMES), Zone()).run()
        assert threads.translate_errors(operator_certificate.read_opened)  # as the edge reads it


@dataclass
class _Ca:
    authority: CaAccount = field(default_factory=lambda: CaAccount((), "https://ca.example/account/1"))
    is_away: bool = False
    revoked: list[x509.Certificate] = field(default_factory=list)

    def has_key(self, key: object) -> bool:
        """Return that the key is current."""
        return True

    def knows_key(self, key: object) -> bool:
        """Return that another key is unknown."""
        return False

    def change_key(self, key: object) -> None:
        """Accept another key."""

    def revoke(self, certificate: x509.Certificate, reason: int) -> None:
        """Revoke a certificate."""
        if self.is_away:
            raise AttemptFailed(outcomes.ca_unreachable(), "away")
        self.revoked.append(certificate)


def _poll(world: World, later: int = 0) -> None:
    """Make attempts at what is due."""

    def now() -> float:
        return clock.seconds() + later

    attempt = Attempt(WindowedCa(world), lambda *_: "http-01", keys=key_making.make, now=now, sleep=lambda _: None)

    def run(due: object) -> None:
        try:
            attempt.run(due)  # type: ignore[arg-type]
        except Killed as error:  # a thread must not end the test
            raise RuntimeError from error

    async def poll() -> None:
        issuer = Issuer(run, OrderCounts(), Pace(attempts=1), now=now)
        for _ in range(4):  # one attempt after the other, also at domains of other tests
            await issuer.poll()
            while issuer.count:
                await asyncio.sleep(0.005)

    asyncio.run(poll())
