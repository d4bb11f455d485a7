"""What an issuer claims and attempts, and what a bound of all accounts postpones."""

import asyncio
from dataclasses import dataclass, field

import pytest

from chalicelib import clock
from chalicelib.model.names import renewal_schedule
from chalicelib.model.names.renewal_schedule import DueRenewal
from edge.issuer.issuer import Issuer, Pace
from edge.issuer.order_counts import OrderCounts
from edge.issuer.rules.order_bounds import Bound, OrderBounds
from tests.transports import Client

POLICY = {"authority": "letsencrypt"}
COUNTS = OrderCounts(OrderBounds(service=Bound(2, 1000, "the service has had two orders")))


@pytest.fixture(autouse=True)
def acme_directory(tunnel_domain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_DIRECTORY", "https://ca.example/directory")


@dataclass
class Attempts:
    """The attempts of an issuer. They count an order and store nothing else."""

    domains: list[str] = field(default_factory=list)
    error: Exception | None = None

    def __call__(self, due: DueRenewal) -> None:
        assert due.entry.renewal.is_claimed
        assert due.stored
        self.domains.append(due.stored.domain)
        if self.error:
            raise self.error
        COUNTS.count(due.entry.account, due.stored.domain, clock.seconds(), replaces=False)


def poll(attempts: Attempts, times: int = 1, *, threads: int = 1) -> None:
    async def work() -> None:
        issuer = Issuer(attempts, COUNTS, Pace(attempts=threads))
        for _ in range(times):
            await issuer.poll()
            while issuer.count:
                await asyncio.sleep(0.005)

    asyncio.run(work())


def reserve(client: Client, *domains: str) -> list[str]:
    bodies = [{"domain": domain, "certificate_management_policy": POLICY} for domain in domains]
    return [f"/reserved_domains/{client.create('/reserved_domains', body)['id']}" for body in bodies]


def test_each_due_domain_is_claimed_and_attempted_once(admin: Client) -> None:
    reserve(admin, "a.example.com", "b.example.com")
    attempts = Attempts()
    poll(attempts)
    assert attempts.domains == ["a.example.com"]
    poll(attempts, 3)
    assert attempts.domains == ["a.example.com", "b.example.com"]


def test_what_the_bound_of_all_accounts_holds_says_when_it_is_tried_again(admin: Client, stranger: Client) -> None:
    own_addresses = reserve(admin, *(f"{name}.example.com" for name in "abcd"))
    other_addresses = reserve(stranger, "theirs.example.net")
    attempts, start = Attempts(), clock.seconds()
    poll(attempts, 3)
    assert attempts.domains == ["a.example.com", "theirs.example.net"]
    jobs = [
        admin.get(address).json["certificate_management_status"]["provisioning_job"] for address in own_addresses[1:]
    ]
    assert {(job["error_code"], job["msg"]) for job in jobs} == {
        ("rate_limited", "Wait until the time in 'retries_at': the service has had two orders.")
    }
    waits = [int(clock.parse(job["retries_at"]).timestamp()) - start for job in jobs]
    assert all(abs(wait - expected) <= 2 for wait, expected in zip(waits, (1000, 1000, 2000), strict=True))
    assert (
        stranger.get(other_addresses[0]).json["certificate_management_status"]["provisioning_job"]["error_code"] is None
    )


def test_an_attempt_that_fails_unexpectedly_ends_alone(admin: Client, capsys: pytest.CaptureFixture[str]) -> None:
    reserve(admin, "a.example.com", "b.example.com")
    attempts = Attempts(error=ValueError("secret"))
    poll(attempts, 2)
    assert attempts.domains == ["a.example.com", "b.example.com"]
    log = capsys.readouterr().err
    assert ('"event": "attempt_failed", "error": "ValueError"' in log, "secret" in log) == (True, False)
    assert len(renewal_schedule.find_due(clock.seconds() + 601, 10)) == 2
