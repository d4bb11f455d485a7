"""A CA and a zone of the tests for the operator's certificate."""

from dataclasses import dataclass, field
from typing import Any

from cryptography import x509

from chalicelib import clock
from chalicelib.model.names import operator_certificate
from edge.issuer import key_making
from edge.issuer.attempts import Challenge
from edge.issuer.operator_orders import OperatorOrders
from edge.issuer.rules.renewal_times import RenewalWindow
from tests.edge.issuer.fake_ca import Ca, World

DOMAIN = "tunnels.example"
NAMES = (DOMAIN, f"*.{DOMAIN}")


class DnsCa(Ca):
    """The CA. It believes a challenge if the zone has its value."""

    knows_renewals = True

    def __init__(self, world: World, zone: "Zone") -> None:
        super().__init__(world)
        self._zone = zone

    def answer(self, challenge: Challenge) -> None:
        self._world.published |= self._zone.records.get(operator_certificate.alias_target(), set())
        super().answer(challenge)

    def renewal_window(self, certificate: x509.Certificate) -> RenewalWindow | None:
        return None


@dataclass
class Zone:
    """The TXT records of the zone of the targets."""

    records: dict[str, set[str]] = field(default_factory=dict)

    def add(self, name: str, value: str) -> None:
        self.records.setdefault(name, set()).add(value)

    def remove(self, name: str) -> None:
        self.records.pop(name, None)


def orders(world: World, zone: Zone, later: int = 0, **more: Any) -> OperatorOrders:
    """Return the orders of an issuer whose clock is ahead by some seconds."""
    parts = {"keys": key_making.make, "now": lambda: clock.seconds() + later, "sleep": lambda _: None, **more}
    return OperatorOrders(DOMAIN, DnsCa(world, zone), zone, parts.pop("check", lambda *_: None), **parts)
