"""A CA of the tests, and a store that survives the issuers, which can be killed at each call."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from chalicelib.model.names.issued_certificates import UnfinishedOrder
from edge.issuer.attempts import AttemptFailed, Challenge
from edge.issuer.rules import outcomes

DOMAIN = "app.example.com"
CA_KEY = ec.generate_private_key(ec.SECP256R1())
CA_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "CA of the test")])


class Killed(BaseException):
    """The process was killed."""


@dataclass
class World:
    """A CA and a store that survive the issuers, which are killed before or after a numbered call."""

    killed_at: int = -1
    calls: list[str] = field(default_factory=list)
    orders: dict[str, str] = field(default_factory=dict)
    requests: dict[str, x509.CertificateSigningRequest] = field(default_factory=dict)
    issued: dict[str, str] = field(default_factory=dict)
    stored: UnfinishedOrder | None = None
    published: set[str] = field(default_factory=set)
    names: tuple[str, ...] = (DOMAIN,)
    is_rejected: bool = False
    replaced: list[Any] = field(default_factory=list)
    revoked: list[tuple[x509.Certificate, int]] = field(default_factory=list)
    refused: int = 0  # revocations while `is_away`
    is_away: bool = False

    def step(self, name: str) -> None:
        self.calls.append(name)
        if len(self.calls) == self.killed_at:
            raise Killed


class Ca:
    """The CA as an issuer sees it."""

    def __init__(self, world: World) -> None:
        self._world = world

    def order(self, names: Sequence[str], replaces: x509.Certificate | None) -> str:
        self._world.step("order")
        url = f"https://ca.example/{len(self._world.orders)}"
        self._world.orders[url] = "pending"
        self._world.replaced.append(replaces)
        return url

    def status(self, order: str) -> str:
        self._world.step("status")
        return self._world.orders[order]

    def challenges(self, order: str, method: str) -> list[Challenge]:
        self._world.step("challenges")
        if self._world.orders[order] == "invalid":
            raise AttemptFailed(outcomes.challenge_failed("Wrong answer"), "unauthorized")
        return [Challenge(DOMAIN, "token", "token.value")]

    def answer(self, challenge: Challenge) -> None:
        self._world.step("answer")
        is_right = challenge.value in self._world.published and not self._world.is_rejected
        self._world.orders[[*self._world.orders][-1]] = "ready" if is_right else "invalid"

    def finalize(self, order: str, request: x509.CertificateSigningRequest) -> None:
        self._world.step("finalize")
        self._world.requests[order] = request
        self._world.orders[order] = "valid"

    def download(self, order: str) -> str:
        self._world.step("download")
        self._world.issued.setdefault(order, issue(self._world.requests[order], self._world.names))
        return self._world.issued[order]

    def revoke(self, certificate: x509.Certificate, reason: int) -> None:
        if self._world.is_away:
            self._world.refused += 1
            raise AttemptFailed(outcomes.ca_unreachable(), "away")
        self._world.revoked.append((certificate, reason))


def issue(request: x509.CertificateSigningRequest, names: tuple[str, ...]) -> str:
    start = datetime.now(UTC) - timedelta(hours=1)
    builder = x509.CertificateBuilder(serial_number=x509.random_serial_number()).subject_name(x509.Name([]))
    builder = builder.issuer_name(CA_NAME).public_key(request.public_key())
    builder = builder.not_valid_before(start).not_valid_after(start + timedelta(days=90))
    alternative = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    certificate = builder.add_extension(alternative, critical=False).sign(CA_KEY, hashes.SHA256())
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
