"""What of an account's usage is to be written, and what a process leaves to the next."""

import pytest

from chalicelib.model.tunnels import Traffic
from edge.ssh.ledger import Ledger, Sum, left

HOUR, NEXT = "2026-11-22T14", "2026-11-22T15"


def test_what_is_written_of_an_hour_is_its_sum_and_each_sum_once() -> None:
    ledger = Ledger()
    ledger.add("acct_A", HOUR, Traffic(1, 2, 3))
    ledger.add("acct_A", HOUR, Traffic(10, 20, 30))
    ledger.add("acct_B", HOUR, Traffic())
    sums = ledger.unwritten()
    assert sums == [Sum("acct_A", HOUR, Traffic(11, 22, 33))]
    ledger.wrote(sums, HOUR)
    assert ledger.unwritten() == []
    ledger.add("acct_A", HOUR, Traffic(1, 0, 0))
    assert ledger.unwritten() == [Sum("acct_A", HOUR, Traffic(12, 22, 33))]


def test_what_was_written_at_different_times_is_written_once() -> None:
    ledger = Ledger()
    for account in ("acct_A", "acct_B"):
        ledger.add(account, HOUR, Traffic(1, 2, 3))
    first, second = ledger.unwritten()
    ledger.wrote([first], HOUR)
    ledger.wrote([second], HOUR)
    assert ledger.unwritten() == []


def test_an_hour_that_is_over_is_written_until_the_store_has_its_last_sum() -> None:
    ledger = Ledger()
    ledger.add("acct_A", HOUR, Traffic(1, 1, 1))
    sums = ledger.unwritten()
    ledger.add("acct_A", HOUR, Traffic(1, 1, 1))
    ledger.add("acct_A", NEXT, Traffic(5, 5, 5))
    ledger.wrote(sums, NEXT)
    assert ledger.unwritten() == [Sum("acct_A", HOUR, Traffic(2, 2, 2)), Sum("acct_A", NEXT, Traffic(5, 5, 5))]
    ledger.wrote(ledger.unwritten(), NEXT)
    ledger.add("acct_A", NEXT, Traffic(1, 1, 1))
    assert ledger.unwritten() == [Sum("acct_A", NEXT, Traffic(6, 6, 6))]


def test_the_next_process_writes_what_a_killed_one_had_not() -> None:
    ledger = Ledger()
    ledger.add("acct_A", HOUR, Traffic(1, 2, 3))
    assert left(ledger.text("gw-1")) == ("gw-1", [Sum("acct_A", HOUR, Traffic(1, 2, 3))])


@pytest.mark.parametrize("text", ["", "{", "[]x"])
def test_a_file_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="line 1"):
        left(text)
