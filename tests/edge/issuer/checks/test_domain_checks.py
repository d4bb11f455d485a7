"""The preflight of a reserved domain, with the table, an HTTP server, and lookups of the test."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from chalicelib.model.names import proofs
from chalicelib.model.names.proofs import CheckResult, ProofStatus
from chalicelib.model.names.reservations import ReservedDomain
from chalicelib.model.tls import certificate_policies, challenge_records
from edge.issuer.attempts import AttemptFailed
from edge.issuer.checks.domain_checks import DomainChecks
from edge.issuer.checks.http_probe import PATH
from edge.issuer.rules.preflight import CaAccount
from tests.transports import Client

DOMAIN, WILDCARD, ID = "app.example.com", "*.app.example.com", "rd_1"
CA = CaAccount(("ca.example",), "https://ca.example/account/1")


@pytest.fixture(autouse=True)
def zone(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_DNS_ZONE", "acme.example")


@dataclass
class Lookups:
    """The records of the DNS: aliases by name, CAA records, and the addresses of all names."""

    aliases: dict[str, str] = field(default_factory=dict)
    caa: frozenset[str] | None = frozenset()
    addresses: tuple[str, ...] = ("127.0.0.1",)

    async def check_alias(self, name: str, target: str) -> CheckResult:
        return CheckResult("present" if self.aliases.get(name) == target else "absent")

    async def find_caa(self, domain: str) -> frozenset[str] | None:
        return self.caa

    async def find_addresses(self, domain: str) -> list[str]:
        return list(self.addresses)


def build_domain(domain: str = DOMAIN, status: ProofStatus = "verified") -> ReservedDomain:
    proof = replace(proofs.begin(0, value="v", cname_target="t"), status=status)
    return ReservedDomain(domain=domain, proof=vars(proof))


@contextmanager
def edge(*, is_slow: bool = False) -> Iterator[int]:
    """Serve the stored answer of each pending token, after the first request if it is slow."""

    class Answers(BaseHTTPRequestHandler):
        ignores = is_slow

        def do_GET(self) -> None:
            pending = challenge_records.find(self.headers["host"].partition(":")[0])
            is_right = pending and self.path == f"{PATH}{pending.token}" and not Answers.ignores
            Answers.ignores = False
            self.send_response(200 if is_right else 404)
            self.end_headers()
            self.wfile.write(pending.answer.encode() if pending else b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def check(lookups: Lookups, reservation: ReservedDomain, *, port: int = 1, patience: float = 0) -> str:
    """Return the method that the preflight chooses, or the message of its failure."""
    checks = DomainChecks(
        lambda: CA, lookups, lookups.find_addresses, lambda address: address != "10.0.0.1", port, patience
    )
    try:
        return checks(ID, reservation)
    except AttemptFailed as error:
        return f"{error.failure.code}: {error.failure.msg}"
    finally:
        assert challenge_records.find(DOMAIN) is None


def test_an_edge_that_answers_passes() -> None:
    with edge() as port:
        assert check(Lookups(addresses=("127.0.0.1", "10.0.0.1")), build_domain(), port=port) == "http-01"


def test_an_edge_that_reads_the_change_log_later_passes() -> None:
    with edge(is_slow=True) as port:
        assert check(Lookups(), build_domain(), port=port, patience=5) == "http-01"


@pytest.mark.parametrize("status", ["pending", "lapsing", "lapsed"])
def test_a_domain_that_is_not_proved_is_not_looked_up(status: ProofStatus) -> None:
    assert check(Lookups(), build_domain(status=status)).startswith(
        "domain_unproved: Prove that you own app.example.com"
    )


@pytest.mark.parametrize(
    ("addresses", "problem"),
    [
        (("127.0.0.1",), "127.0.0.1 refuses connections."),
        (("10.0.0.1",), "no public address was found."),
        ((), "no public address was found."),
    ],
)
def test_a_domain_that_leads_elsewhere_names_the_address(addresses: tuple[str, ...], problem: str) -> None:
    sentence = f"http_unreachable: Point app.example.com to this service and open port 1: {problem}"
    assert check(Lookups(addresses=addresses), build_domain()) == sentence


def test_a_wildcard_needs_its_alias() -> None:
    target = certificate_policies.alias_target(ID)
    assert target.endswith(".acme.example")
    missing = f"dns_alias_missing: Add the record _acme-challenge.app.example.com CNAME {target}, which a certificate"
    assert check(Lookups(), build_domain(WILDCARD)).startswith(missing)
    aliases = {"_acme-challenge.app.example.com": target}
    assert check(Lookups(aliases), build_domain(WILDCARD)) == check(Lookups(aliases), build_domain()) == "dns-01"


@pytest.mark.parametrize(
    ("caa", "code"),
    [
        (frozenset({"0 issue ca.example"}), "dns-01"),
        (
            frozenset({"0 issue other.example"}),
            "caa_forbids: The CAA records of app.example.com do not permit ca.example to ",
        ),
        (None, "dns-01"),
    ],
)
def test_caa_records_must_admit_the_ca_if_they_are_known(caa: frozenset[str] | None, code: str) -> None:
    aliases = {"_acme-challenge.app.example.com": certificate_policies.alias_target(ID)}
    assert check(Lookups(aliases, caa), build_domain()).startswith(code)
