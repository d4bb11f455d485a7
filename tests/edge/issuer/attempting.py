"""An issuer of the tests, which attempts what is due with a CA of the test and a clock of its own."""

from dataclasses import dataclass
from typing import Any

from cryptography import x509

from chalicelib import clock
from chalicelib.model.names import renewal_schedule
from chalicelib.model.names.reservations import ReservedDomain
from chalicelib.model.tls import challenge_records
from chalicelib.model.tls.renewals import Method
from edge.issuer import key_making
from edge.issuer.attempt import Attempt
from edge.issuer.attempts import AttemptFailed, Challenge
from edge.issuer.rules.renewal_times import RenewalWindow
from tests.conftest import stored
from tests.edge.issuer.fake_ca import DOMAIN, Ca, World
from tests.proving import prove
from tests.transports import Client

POLICY = {"authority": "letsencrypt", "private_key_type": "ecdsa"}


class WindowedCa(Ca):
    """The CA with renewal information. It believes a challenge if its answer is in the table."""

    knows_renewals = True

    def __init__(self, world: World, window: RenewalWindow | None = None) -> None:
        super().__init__(world)
        self.window = window

    def answer(self, challenge: Challenge) -> None:
        records = (record for records in stored().values() for record in records.values())
        challenges = [record for record in records if record["scope"]["S"] == f"{challenge_records.PREFIX}{DOMAIN}"]
        self._world.published |= {
            challenge_record["body"]["M"]["answer"]["S"] for challenge_record in challenges
        }  # read without rights
        super().answer(challenge)

    def renewal_window(self, certificate: x509.Certificate) -> RenewalWindow | None:
        return self.window


@dataclass
class Issuer:
    """An issuer with a clock of its own."""

    ca: WindowedCa
    failure: AttemptFailed | None = None
    later: int = 0  # seconds by which its clock is ahead

    def now(self) -> float:
        return clock.seconds() + self.later

    def preflight(self, id: str, stored: ReservedDomain) -> Method:
        if self.failure:
            raise self.failure
        return "http-01"

    def run(self) -> None:
        """Claim what is due, and make an attempt at it."""
        now = int(self.now())
        for due in renewal_schedule.find_due(now, 10):
            claim = renewal_schedule.claim(due, now, now + 600)
            assert claim
            Attempt(
                self.ca,
                self.preflight,
                keys=key_making.make,
                now=self.now,
                sleep=lambda _: None,
                random=lambda: 0.5,
            ).run(claim)


def reserved(client: Client) -> str:
    reservation = client.create("/reserved_domains", {"domain": DOMAIN, "certificate_management_policy": POLICY})
    prove(reservation["id"])
    return f"/reserved_domains/{reservation['id']}"


def status(client: Client, address: str) -> dict[str, Any]:
    management_status: dict[str, Any] = client.get(address).json["certificate_management_status"]
    return management_status
