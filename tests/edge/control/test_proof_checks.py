"""When the records of domains are looked at, by several edge hosts on one store."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace

from chalicelib.model.names.proofs import CheckResult, Proof
from edge.control.proof_checks import ProofChecks
from tests.edge.reservations import DAY, NOW, Reservations

PRESENT, ABSENT = CheckResult("present"), CheckResult("absent", "Gone.")


@dataclass
class Records:
    """What is in the DNS: ids by the values of their records. `hang` are domains whose name servers are silent."""

    present: set[str] = field(default_factory=set)
    hang: set[str] = field(default_factory=set)
    looks: Counter[str] = field(default_factory=Counter)
    at_once: int = 0
    peak: int = 0

    async def look(self, domain: str, proof: Proof) -> CheckResult:
        self.looks[domain] += 1
        self.at_once += 1
        self.peak = max(self.peak, self.at_once)
        try:
            await (asyncio.Event().wait() if domain in self.hang else asyncio.sleep(0))
        finally:
            self.at_once -= 1
        return PRESENT if proof.value.removeprefix("value-") in self.present else ABSENT


def run(store: Reservations, records: Records, *, hosts: int = 1, rounds: int = 30, at: int = NOW) -> None:
    """Have edge hosts begin so many rounds of looks, a hundred a second on a machine that does nothing else."""

    async def work() -> None:
        checks_of_hosts = [ProofChecks(store, records.look, now=lambda: at) for _ in range(hosts)]
        for _ in range(rounds):
            for checks in checks_of_hosts:
                await checks.start()
            await asyncio.sleep(0.01)

    asyncio.run(work())


def test_a_domain_is_looked_at_when_it_is_due() -> None:
    store, records = Reservations(), Records(present={"a"})
    store.add("a", domain="shop.example")
    store.add("b", domain="unproved.example")
    run(store, records)
    assert (store.holders, store.events) == ({"shop.example": "a"}, [("a", "verified")])
    assert [reservation.proof.next_at for reservation in store.kept.values()] == [NOW + DAY, NOW + 60]
    run(store, records, at=NOW + 59)
    assert records.looks == {"shop.example": 1, "unproved.example": 1}


def test_a_record_that_goes_and_comes_back_tells_of_both() -> None:
    store, records = Reservations(), Records()
    store.add("a", domain="shop.example", status="verified")
    run(store, records)
    assert (store.events, store.holders) == ([("a", "lapsing")], {"shop.example": "a"})
    records.present = {"a"}
    run(store, records, at=NOW + DAY)
    assert store.events == [("a", "lapsing"), ("a", "verified")]


def test_several_hosts_look_once_each_at_what_is_due() -> None:
    store, records = Reservations(), Records(present={str(number) for number in range(200)})
    for number in range(200):
        store.add(str(number))
    run(store, records, hosts=4, rounds=100)
    assert set(records.looks.values()) == {1}
    assert sorted(store.events) == sorted((str(number), "verified") for number in range(200))


def test_silent_domains_of_one_account_delay_nobody_and_are_few_at_once() -> None:
    silent = {f"silent-{number}" for number in range(300)}
    store, records = Reservations(), Records(present={"a"}, hang=set(silent))
    for name in sorted(silent):
        store.add(name, account="hostile")
    store.add("a")
    run(store, records)
    assert store.events == [("a", "verified")]
    assert records.peak <= 9
    assert sum(records.looks[name] for name in silent) == 8


def test_silent_domains_of_many_accounts_are_many_at_once_but_not_all() -> None:
    store, records = Reservations(), Records(hang={str(number) for number in range(300)})
    for number in range(300):
        store.add(str(number))
    run(store, records)
    assert records.peak == 64


def test_a_look_of_a_host_that_dies_is_due_again() -> None:
    store, records = Reservations(), Records(present={"a"}, hang={"a"})
    store.add("a")
    run(store, records)
    records.hang.clear()
    run(store, records, at=NOW + 59)
    assert store.events == []
    run(store, records, at=NOW + 60)
    assert store.events == [("a", "verified")]


def test_a_proof_takes_the_domain_of_a_holder_whose_record_is_absent() -> None:
    store, records = Reservations(), Records(present={"b"})
    store.add("a", domain="shop.example", status="lapsing")
    store.kept["a"] = replace(store.kept["a"], proof=replace(store.kept["a"].proof, next_at=NOW + DAY))
    store.add("b", domain="shop.example")
    run(store, records)
    assert store.holders == {"shop.example": "b"}
    assert store.events == [("a", "lapsed"), ("b", "verified")]
    assert [reservation.proof.status for reservation in store.kept.values()] == ["lapsed", "verified"]


def test_with_both_records_present_the_holder_keeps_the_domain() -> None:
    store, records = Reservations(), Records(present={"a", "b"})
    store.add("a", domain="shop.example", status="verified")
    store.add("b", domain="shop.example")
    run(store, records)
    assert (store.holders, store.events) == ({"shop.example": "a"}, [])
    assert "the DNS record of that account still exists" in store.kept["b"].proof.error


def test_an_unproved_domain_has_nobody_else_looked_at() -> None:
    store, records = Reservations(), Records()
    store.add("a", domain="shop.example", status="verified")
    store.kept["a"] = replace(store.kept["a"], proof=replace(store.kept["a"].proof, next_at=NOW + DAY))
    store.add("b", domain="shop.example")
    run(store, records)
    assert (records.looks, store.kept["a"].revision) == ({"shop.example": 1}, 1)


def test_a_wish_during_a_look_is_not_lost() -> None:
    store, records = Reservations(), Records()
    store.add("a")
    wishes = iter([store.wish])

    async def look(domain: str, proof: Proof) -> CheckResult:
        for wish in wishes:
            wish("a")
        return await records.look(domain, proof)

    async def work() -> None:
        checks = ProofChecks(store, look, now=lambda: NOW)
        for _ in range(20):
            await checks.start()
            await asyncio.sleep(0.01)

    asyncio.run(work())
    assert (records.looks["a"], store.kept["a"].proof.next_at) == (2, NOW + 60)


def test_a_store_that_fails_is_tried_again() -> None:
    store, records = Reservations(is_down=True), Records(present={"a"})
    store.add("a")

    async def work() -> None:
        serving = asyncio.create_task(ProofChecks(store, records.look, now=lambda: NOW).serve())
        await asyncio.sleep(0.1)
        store.is_down = False
        while not store.events:
            await asyncio.sleep(0.05)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(asyncio.wait_for(work(), 10))
    assert store.events == [("a", "verified")]
