"""The budget of cold reads, and the answers that need none."""

import pytest

from edge.plan.cold_reads import Answers, ReadBudget, Unserved

D = "tunnels.example"


def budget(per_second: int = 20) -> ReadBudget:
    return ReadBudget(per_second, D, 0.0)


def test_a_second_has_its_budget_and_the_next_one_the_same() -> None:
    reads = budget()
    assert [reads.take(f"a.d{number}.example", 0) for number in range(21)] == [*[""] * 20, "host"]
    assert [reads.take(f"a.d{number}.example", 0.5) for number in range(11)] == [*[""] * 10, "host"]
    assert [reads.take(f"a.d{number}.example", 99) for number in range(21)] == [*[""] * 20, "host"]


@pytest.mark.parametrize(
    "names",
    [
        ("a.shop.co.uk", "b.shop.co.uk", "c.d.shop.co.uk"),
        ("shop.example", "a.shop.example", "b.shop.example"),
        (f"team.{D}", f"a.team.{D}", f"b.a.team.{D}"),
    ],
)
def test_one_domain_has_a_tenth(names: tuple[str, str, str]) -> None:
    reads = budget()
    assert [reads.take(name, 0) for name in names] == ["", "", "domain"]
    assert [reads.take(name, 0) for name in ("other.co.uk", "other.example", f"other.{D}")] == ["", "", ""]


def test_a_refused_read_of_a_domain_costs_the_others_nothing() -> None:
    reads = budget()
    for _ in range(1000):
        reads.take("a.shop.example", 0)
    assert [reads.take(f"a.d{number}.example", 0) for number in range(19)] == [*[""] * 18, "host"]


def test_a_name_counts_once_for_four_keys_that_may_prove_it() -> None:
    reads = budget(100)
    labels = ["a"] * 22
    assert reads.take(".".join([*labels, "shop", "example"]), 0) == ""  # 23 keys
    assert [reads.take("a.b.c.d.shop.example", 0) for _ in range(3)] == ["", "", "domain"]  # five keys each


def test_a_name_dearer_than_the_share_of_its_domain_is_read_alone() -> None:
    name = ".".join(["a"] * 60)
    reads = budget()
    assert [reads.take(name, 0), reads.take(name, 0), reads.take(name, 9)] == ["", "host", ""]


def test_a_name_dearer_than_the_budget_of_a_host_is_read_alone() -> None:
    reads = budget(1)
    assert [reads.take("a.b.c.d.e.shop.example", at) for at in (0, 1, 2)] == ["", "host", ""]


def test_idle_domains_are_forgotten() -> None:
    reads = budget()
    for number in range(20):
        reads.take(f"a.d{number}.example", number)
    reads.forget_idle(19.25)
    assert [reads.take("a.d19.example", 19.25) for _ in range(3)] == ["", "domain", "domain"]


def test_an_answer_is_remembered_for_its_time() -> None:
    answers = Answers(5, 10)
    answers.add("a", "", 0)
    answers.add("b", "", 3)
    assert [answers.take_expired(now) for now in (4.9, 5, 7, 8)] == [[], ["a"], [], ["b"]]
    assert "b" not in answers


def test_beyond_their_number_the_oldest_is_forgotten() -> None:
    answers = Answers(5, 2)
    for now, name in enumerate(["a", "b", "a", "c"]):
        answers.add(name, "", now)
    assert [name in answers for name in "abc"] == [True, False, True]
    assert answers.is_full


def test_an_answer_that_is_given_again_takes_no_other_one_s_place() -> None:
    answers = Answers(10, 2)
    for name, now in (("a", 0), ("b", 1), ("b", 2)):
        answers.add(name, "", now)
    assert ("a" in answers, "b" in answers) == (True, True)
    assert answers.take_expired(11) == ["a"]


def test_changes_take_the_answers_of_their_accounts_and_names() -> None:
    answers = Answers(5, 10)
    for name, account in {"a": "acct_a", "b": "", "c": "", "d": "acct_d"}.items():
        answers.add(name, account, 0)
    answers.discard("d")
    assert answers.take_affected({"acct_a", "acct_d"}, "c".__eq__) == ["a", "c"]
    assert ("b" in answers, len(answers)) == (True, 1)


def test_a_change_loads_few_of_the_names_that_others_chose_below_a_base_name() -> None:
    unserved, names = Unserved(D, 10, 100, 3600), [f"{letter}.team.{D}" for letter in "abcdefgh"]
    for name in (*names, f"shop.{D}"):
        unserved.pages.add(name, "", 0)
        unserved.add_unknown(name, "", 0)
    pages, visited_names = unserved.take_affected((), lambda _: True)
    assert pages == [*names, f"shop.{D}"]
    assert visited_names == [*names[-4:], f"shop.{D}"]
    assert unserved.take_affected((), lambda _: True) == ([], [])


def test_connections_that_got_a_page_are_remembered_longer_than_the_page() -> None:
    unserved = Unserved(D, 10, 100, 3600)
    unserved.pages.add(f"shop.{D}", "", 0)
    unserved.add_unknown(f"shop.{D}", "", 0)
    assert unserved.take_expired(10) == [f"shop.{D}"]
    assert unserved.take_affected((), lambda _: True) == ([], [f"shop.{D}"])
    unserved.add_unknown(f"shop.{D}", "", 0)
    assert unserved.take_expired(3600) == []
    assert unserved.take_affected((), lambda _: True) == ([], [])
