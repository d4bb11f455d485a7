"""How far the proof of a domain comes: what each look changes, contests, and what a proved domain proves."""

from dataclasses import replace

import pytest

from chalicelib.model.names import proofs
from chalicelib.model.names.proofs import CheckResult, Proof, ProofChange, TooSoon

MINUTE, HOUR, DAY = 60, 3600, 86400
NOW = 1_800_000_000
NEW = proofs.begin(NOW, value="v", cname_target="t")
PRESENT, ABSENT, UNKNOWN = CheckResult("present"), CheckResult("absent", "Gone."), CheckResult("unknown", "Silent.")
VERIFIED = Proof("v", "t", "verified", since=NOW, next_at=NOW + DAY, seen_at=NOW, checked_at=NOW)
LAPSING = replace(VERIFIED, status="lapsing", error="Gone.")
LAPSED = replace(VERIFIED, status="lapsed", next_at=NOW + MINUTE, error="Gone.")


def test_a_new_proof_is_looked_for_at_once() -> None:
    assert Proof("v", "t", "pending", since=NOW, next_at=NOW) == NEW
    assert [proof.holds for proof in (NEW, VERIFIED, LAPSING, LAPSED)] == [False, True, True, False]


@pytest.mark.parametrize("before", [NEW, LAPSING, LAPSED])
def test_the_record_verifies_a_domain(before: Proof) -> None:
    now = NOW + HOUR
    verified = replace(VERIFIED, since=now, seen_at=now, checked_at=now, next_at=now + DAY)
    assert proofs.apply_check(before, PRESENT, now) == ProofChange(verified, "verified")


def test_a_verified_domain_is_looked_at_daily_without_an_event() -> None:
    now = NOW + DAY
    assert proofs.apply_check(VERIFIED, PRESENT, now) == ProofChange(
        replace(VERIFIED, seen_at=now, checked_at=now, next_at=now + DAY)
    )


def test_a_domain_without_its_record_begins_to_lapse() -> None:
    now = NOW + DAY
    lapsing = replace(LAPSING, since=now, checked_at=now, next_at=now + DAY)
    assert proofs.apply_check(VERIFIED, ABSENT, now) == ProofChange(lapsing, "lapsing")


def test_silence_is_looked_at_hourly_and_counts_as_no_record_after_two_days() -> None:
    now = NOW + 2 * DAY - 1
    waiting = replace(VERIFIED, checked_at=now, next_at=now + HOUR, error="Silent.")
    assert proofs.apply_check(VERIFIED, UNKNOWN, now) == ProofChange(waiting)
    lapsing = replace(LAPSING, since=now + 1, checked_at=now + 1, next_at=now + 1 + DAY, error="Silent.")
    assert proofs.apply_check(waiting, UNKNOWN, now + 1) == ProofChange(lapsing, "lapsing")


@pytest.mark.parametrize("check_result", [ABSENT, UNKNOWN])
def test_a_lapsing_domain_lapses_after_seven_days(check_result: CheckResult) -> None:
    events: list[str] = []
    proof, days = LAPSING, 0
    while proof.status == "lapsing":
        days += 1
        step = proofs.apply_check(proof, check_result, NOW + days * DAY)
        proof, events = step.proof, [*events, step.event]
    assert (events, proof.since, proof.next_at) == ([*[""] * 6, "lapsed"], NOW + 7 * DAY, NOW + 7 * DAY + MINUTE)


def test_the_last_look_at_a_lapsing_domain_is_at_the_end_of_its_seven_days() -> None:
    step = proofs.apply_check(LAPSING, ABSENT, NOW + 6 * DAY + HOUR)
    assert (step.proof.status, step.proof.next_at) == ("lapsing", NOW + 7 * DAY)


@pytest.mark.parametrize("before", [NEW, LAPSED])
def test_the_pauses_before_proof_grow_from_a_minute_to_a_day(before: Proof) -> None:
    proof, pauses = before, []
    for _ in range(40):
        now = max(proof.next_at, NOW)
        step = proofs.apply_check(proof, ABSENT, now)
        assert (step.event, step.proof.status, step.proof.since) == ("", before.status, NOW)
        proof = step.proof
        pauses.append(proof.next_at - now)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (MINUTE, DAY)
    assert pauses.index(DAY) < 25


def test_a_look_may_be_wished_for_once_a_minute() -> None:
    wished = proofs.request_check(VERIFIED, NOW + 5)
    assert wished == replace(VERIFIED, wished_at=NOW + 5, next_at=NOW + 5)
    with pytest.raises(TooSoon) as error:
        proofs.request_check(wished, NOW + 64)
    assert error.value.wait == 1
    assert proofs.request_check(wished, NOW + 65).next_at == NOW + 5


@pytest.mark.parametrize("challenger", [NEW, LAPSED])
@pytest.mark.parametrize("owner", [VERIFIED, LAPSING])
def test_another_proof_takes_the_domain_at_once_while_the_holders_record_is_absent(
    challenger: Proof, owner: Proof
) -> None:
    now = NOW + HOUR
    verified = replace(VERIFIED, since=now, seen_at=now, checked_at=now, next_at=now + DAY)
    error = "The DNS record that proved the domain is gone, and another account has proved the domain."
    lapsed = replace(LAPSED, since=now, checked_at=now, next_at=now + MINUTE, error=error)
    steps = proofs.apply_contest(challenger, owner, ABSENT, now)
    assert steps == (ProofChange(verified, "verified"), ProofChange(lapsed, "lapsed"))


@pytest.mark.parametrize(
    ("check_result", "error"),
    [
        (PRESENT, "the DNS record of that account still exists: remove that record first."),
        (UNKNOWN, "the DNS record of that account cannot be checked at the moment: Silent."),
    ],
)
def test_a_holder_whose_record_may_be_there_keeps_the_domain(check_result: CheckResult, error: str) -> None:
    now = NOW + HOUR
    waiting = replace(
        NEW, checked_at=now, next_at=now + HOUR // 2, error=f"Another account has proved this domain, and {error}"
    )
    assert proofs.apply_contest(NEW, VERIFIED, check_result, now) == (ProofChange(waiting), None)


@pytest.mark.parametrize("domain", ["shop.example.com", "*.shop.example.com"])
def test_where_the_text_record_stands(domain: str) -> None:
    assert proofs.record_name(domain) == "_tunnel-verification.shop.example.com"


@pytest.mark.parametrize(
    ("host", "names"),
    [
        ("d.com", ("d.com",)),
        ("a.d.com", ("a.d.com", "*.d.com")),
        ("a.b.d.com", ("a.b.d.com", "*.b.d.com", "*.d.com")),
        ("*.d.com", ("*.d.com",)),
        ("*.b.d.com", ("*.b.d.com", "*.d.com")),
    ],
)
def test_which_domains_prove_a_host(host: str, names: tuple[str, ...]) -> None:
    assert proofs.list_proving_domains(host) == names


@pytest.mark.parametrize(
    ("host", "owners", "owner"),
    [
        ("d.com", {"d.com": "A"}, "A"),
        ("a.d.com", {"d.com": "A"}, None),
        ("*.d.com", {"d.com": "A"}, None),
        ("d.com", {"*.d.com": "A"}, None),
        ("a.d.com", {"*.d.com": "A"}, "A"),
        ("b.a.d.com", {"*.d.com": "A"}, "A"),
        ("*.a.d.com", {"*.d.com": "A"}, "A"),
        ("ad.com", {"*.d.com": "A"}, None),
        ("a.d.com.evil.com", {"*.d.com": "A", "d.com": "A"}, None),
        ("a.d.com", {"*.d.com": "A", "a.d.com": "B"}, "B"),
        ("b.a.d.com", {"*.d.com": "A", "*.a.d.com": "B"}, "B"),
        ("b.a.d.com", {"*.d.com": "A", "a.d.com": "B"}, "A"),
        ("a.d.com", {"*.a.d.com": "B"}, None),
        ("a.d.com", {}, None),
    ],
)
def test_whose_proof_proves_a_host(host: str, owners: dict[str, str], owner: str | None) -> None:
    assert proofs.find_proving(host, owners) == owner
