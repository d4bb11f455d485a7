"""When the records of domains are looked at, by several edge hosts on one store."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from chalicelib.model.names import proof_checks
from chalicelib.model.names.proofs import CheckResult, Proof
from edge.control.proof_checks import ProofChecks
from edge.store import threads
from tests.edge.control.waiting import until
from tests.edge.edge_table import EdgeTable
from tests.edge.reservations import DAY, NOW, Reservations

PRESENT, ABSENT = CheckResult("present"), CheckResult("absent", "Gone.")


@dataclass
class Records:
    """What is in the DNS: ids by the values of their records. `hang` are domains whose name servers are silent."""

    present: set[str] = field(default_factory=set)
    hang: set[str] = field(default_factory=set)
    looks: Counter[str] = field(default_factory=Counter)
    at_once: int = 0
    hanging: int = 0
    peak: int = 0

    async def look(self, domain: str, proof: Proof) -> CheckResult:
        self.looks[domain] += 1
        self.at_once += 1
        self.peak = max(self.peak, self.at_once)
        self.hanging += domain in self.hang
        try:
            await (asyncio.Event().wait() if domain in self.hang else asyncio.sleep(0))
        finally:
            self.at_once -= 1
            self.hanging -= domain in self.hang
        return PRESENT if proof.value.removeprefix("value-") in self.present else ABSENT


def run(checked: Records, *, hosts: int = 1, rounds: int = 2, at: int = NOW) -> None:
    """Have edge hosts begin so many rounds of looks, each when all looks of the one before have ended or hang."""

    async def work() -> None:
        checks_of_hosts = [ProofChecks(checked.look, now=lambda: at) for _ in range(hosts)]
        for _ in range(rounds):
            await asyncio.gather(*(checks.start() for checks in checks_of_hosts))
            await until(lambda: sum(checks.count for checks in checks_of_hosts) == checked.hanging)

    asyncio.run(work())


def test_a_domain_is_looked_at_when_it_is_due() -> None:
    store, records = Reservations(), Records(present={"a"})
    store.add("a", domain="shop.example")
    store.add("b", domain="unproved.example")
    run(records)
    assert (store.holders, store.events) == ({"shop.example": "a"}, [("a", "verified")])
    assert [proof.next_at for proof in store.proofs.values()] == [NOW + DAY, NOW + 60]
    run(records, at=NOW + 59)
    assert records.looks == {"shop.example": 1, "unproved.example": 1}


def test_a_record_that_goes_and_comes_back_tells_of_both() -> None:
    store, records = Reservations(), Records()
    store.add("a", domain="shop.example", status="verified")
    run(records)
    assert (store.events, store.holders) == ([("a", "lapsing")], {"shop.example": "a"})
    records.present = {"a"}
    run(records, at=NOW + DAY)
    assert store.events == [("a", "lapsing"), ("a", "verified")]


def test_several_hosts_look_once_each_at_what_is_due() -> None:
    domains = {str(number) for number in range(30)}
    store, records = Reservations(), Records(present=domains)
    for domain in domains:
        store.add(domain)
    run(records, hosts=3)
    assert records.looks == dict.fromkeys(domains, 1)
    assert sorted(store.events) == sorted((domain, "verified") for domain in domains)


def test_a_check_that_another_host_claims_during_the_read_is_not_due(edge_table: EdgeTable) -> None:
    Reservations().add("a")
    (due,) = proof_checks.find_due(NOW, 10)
    unclaimed = iter([due])

    def claim(operation: str, _: str) -> None:
        for check in unclaimed if operation == "BatchGetItem" else ():
            assert proof_checks.claim(check, until=NOW + 60)

    edge_table.before = claim
    assert asyncio.run(threads.call(proof_checks.find_due, NOW, 10)) == []
    assert [check.id for check in proof_checks.find_due(NOW + 60, 10)] == [due.id]


def test_silent_domains_of_one_account_delay_nobody_and_are_few_at_once() -> None:
    silent = {f"silent-{number}" for number in range(20)}
    store, records = Reservations(), Records(present={"a"}, hang=set(silent))
    for name in sorted(silent):
        store.add(name, account="hostile")
    store.add("a")
    run(records)
    assert store.events == [("a", "verified")]
    assert records.peak <= 9
    assert sum(records.looks[name] for name in silent) == 8


def test_silent_domains_of_many_accounts_are_many_at_once_but_not_all() -> None:
    domains = {str(number) for number in range(70)}
    store, records = Reservations(), Records(hang=domains)
    for domain in domains:
        store.add(domain)
    run(records)
    assert records.peak == 64


def test_a_look_of_a_host_that_dies_is_due_again() -> None:
    store, records = Reservations(), Records(present={"a"}, hang={"a"})
    store.add("a")
    run(records)
    records.hang.clear()
    run(records, at=NOW + 59)
    assert store.events == []
    run(records, at=NOW + 60)
    assert store.events == [("a", "verified")]


def test_a_proof_takes_the_domain_of_a_holder_whose_record_is_absent() -> None:
    store, records = Reservations(), Records(present={"b"})
    store.add("a", domain="shop.example", status="lapsing", next_at=NOW + DAY)
    store.add("b", domain="shop.example")
    run(records)
    assert store.holders == {"shop.example": "b"}
    assert store.events == [("b", "verified"), ("a", "lapsed")]
    assert [proof.status for proof in store.proofs.values()] == ["lapsed", "verified"]


def test_with_both_records_present_the_holder_keeps_the_domain() -> None:
    store, records = Reservations(), Records(present={"a", "b"})
    store.add("a", domain="shop.example", status="verified")
    store.add("b", domain="shop.example")
    run(records)
    assert (store.holders, store.events) == ({"shop.example": "a"}, [])
    assert "the DNS record of that account still exists" in store.proofs["b"].error


def test_an_unproved_domain_has_nobody_else_looked_at() -> None:
    store, records = Reservations(), Records()
    store.add("a", domain="shop.example", status="verified", next_at=NOW + DAY)
    store.add("b", domain="shop.example")
    run(records)
    assert (records.looks, store.revisions["a"]) == ({"shop.example": 1}, 1)


def test_a_wish_during_a_look_is_not_lost() -> None:
    store, records = Reservations(), Records()
    store.add("a")
    wishes = iter([store.request_check])

    async def look(domain: str, proof: Proof) -> CheckResult:
        for wish in wishes:
            await asyncio.to_thread(wish, "a")
        return await records.look(domain, proof)

    async def work() -> None:
        checks = ProofChecks(look, now=lambda: NOW)
        for _ in range(3):
            await checks.start()
            await until(lambda: not checks.count)

    asyncio.run(work())
    assert (records.looks["a"], store.proofs["a"].next_at) == (2, NOW + 60)


def test_a_store_that_fails_is_tried_again(edge_table: EdgeTable) -> None:
    store, records = Reservations(), Records(present={"a"})
    store.add("a")
    edge_table.is_away = True

    async def work() -> None:
        serving = asyncio.create_task(ProofChecks(records.look, now=lambda: NOW).serve())
        await asyncio.sleep(0.1)
        assert not records.looks
        edge_table.is_away = False
        await until(lambda: bool(store.events))
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(work())
    assert store.events == [("a", "verified")]
