"""Reserved domains from their claim to their lapse: records that come and go at name servers on the loopback."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from edge.control.proof_checks import ProofChecks
from edge.proofs import servers
from edge.proofs.resolver import Resolver
from tests.edge.reservations import DAY, NOW, Reservations
from tests.live.edge.nameservers import NameServer, serving

DOMAIN, TXT = "shop.example", "_tunnel-verification.shop.example"


@dataclass
class World:
    """Two name servers, the reservations, and one edge host with a clock of its own."""

    first: NameServer = field(default_factory=lambda: NameServer("127.0.0.1"))
    second: NameServer = field(default_factory=lambda: NameServer("127.0.0.2"))
    store: Reservations = field(default_factory=Reservations)
    now: int = NOW

    def write(self, *values: str, name: str = TXT, kind: str = "TXT") -> None:
        for server in (self.first, self.second):
            server.records[name, kind] = list(values)

    def pass_time(self, seconds: int) -> None:
        """Let so much time pass, with the looks that are due meanwhile, each in its own second."""
        until = self.now + seconds
        while (following := min((proof.next_at for proof in self.store.proofs.values()), default=until)) <= until:
            self.now = max(self.now, following)
            asyncio.run(self._check())
        self.now = until

    async def _check(self) -> None:
        source = servers.build_source([("127.0.0.1", self.first.port), ("127.0.0.2", self.second.port)])
        checks = ProofChecks(Resolver(source).check_proof, now=lambda: self.now)
        await checks.start()
        while checks.count:
            await asyncio.sleep(0.002)

    def states(self) -> dict[str, str]:
        return {name: proof.status for name, proof in self.store.proofs.items()}


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    with serving(world.first, world.second):
        yield world


def test_a_record_proves_a_domain_goes_and_the_domain_lapses_after_seven_days(world: World) -> None:
    world.store.add("a", domain=DOMAIN)
    world.pass_time(2 * DAY)
    assert (world.states(), world.store.events) == ({"a": "pending"}, [])
    world.write("value-a")
    world.pass_time(DAY)
    assert (world.states(), world.store.events) == ({"a": "verified"}, [("a", "verified")])
    world.write()
    world.pass_time(DAY)
    assert (world.states(), world.store.events[1:]) == ({"a": "lapsing"}, [("a", "lapsing")])
    world.pass_time(6 * DAY - 1)
    assert world.store.holders == {DOMAIN: "a"}
    world.pass_time(DAY + 1)
    assert (world.states(), world.store.events[2:]) == ({"a": "lapsed"}, [("a", "lapsed")])
    assert world.store.holders == {}
    world.write("value-a")
    world.pass_time(DAY)
    assert (world.states(), world.store.events[3:]) == ({"a": "verified"}, [("a", "verified")])


def test_a_record_that_comes_back_in_time_keeps_the_domain(world: World) -> None:
    world.store.add("a", domain=DOMAIN)
    world.write("value-a")
    world.pass_time(DAY)
    world.write()
    world.pass_time(5 * DAY)
    world.write("value-a")
    world.pass_time(20 * DAY)
    assert world.states() == {"a": "verified"}
    assert world.store.events == [("a", "verified"), ("a", "lapsing"), ("a", "verified")]


def test_one_server_that_lies_changes_nothing_for_who_has_the_domain_and_for_who_claims_it(world: World) -> None:
    world.store.add("a", domain=DOMAIN)
    world.write("value-a")
    world.pass_time(60)
    world.store.add("b", domain=DOMAIN)
    world.second.records[TXT, "TXT"] = ["value-b"]
    world.pass_time(DAY + 3600)
    assert world.states() == {"a": "verified", "b": "pending"}
    assert world.store.events == [("a", "verified")]


def test_who_proves_a_domain_without_the_holders_record_has_it_at_once(world: World) -> None:
    world.store.add("a", domain=DOMAIN)
    world.write("value-a")
    world.pass_time(60)
    world.store.add("b", domain=DOMAIN)
    world.write("value-a", "value-b")
    world.pass_time(60)
    assert (world.states(), world.store.holders) == ({"a": "verified", "b": "pending"}, {DOMAIN: "a"})
    world.write("value-b")
    world.pass_time(120)
    assert (world.states(), world.store.holders) == ({"a": "lapsed", "b": "verified"}, {DOMAIN: "b"})
    assert world.store.events == [("a", "verified"), ("b", "verified"), ("a", "lapsed")]


def test_the_alias_of_a_deleted_reservation_proves_nothing_for_the_next_one(world: World) -> None:
    world.store.add("a", domain=DOMAIN)
    world.write("target-a", name=DOMAIN, kind="CNAME")
    world.pass_time(60)
    assert world.states() == {"a": "verified"}
    world.store.remove("a")
    world.store.add("b", domain=DOMAIN)
    world.pass_time(3 * DAY)
    assert world.states() == {"b": "pending"}
    assert world.store.proofs["b"].error == (
        f"There is no TXT record {TXT}. {DOMAIN} has a CNAME record, but it does not lead to target-b: change the "
        "record."
    )


def test_domains_that_are_never_proved_are_asked_for_less_and_less(world: World) -> None:
    world.store.add("a", domain=DOMAIN)
    world.pass_time(DAY)
    first_day = sum(kind == "TXT" for _, kind, _ in world.first.questions)
    assert 10 < first_day < 25
    world.pass_time(3 * DAY)
    assert 3 <= sum(kind == "TXT" for _, kind, _ in world.first.questions) - first_day <= 5
