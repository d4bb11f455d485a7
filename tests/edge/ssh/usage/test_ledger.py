"""What of an account's usage is to be written, and what a process leaves to the next."""

import pytest

from chalicelib.model.tunnels.tunnels import Traffic
from edge.ssh.usage.ledger import HourlyUsage, Ledger, parse

HOUR, NEXT = "2026-11-22T14", "2026-11-22T15"


def test_what_is_written_of_an_hour_is_its_sum_and_each_sum_once() -> None:
    ledger = Ledger()
    ledger.add("acct_A", HOUR, Traffic(1, 2, 3))
    ledger.add("acct_A", HOUR, Traffic(10, 20, 30))
    ledger.add("acct_B", HOUR, Traffic())
    sums = ledger.list_unwritten()
    assert sums == [HourlyUsage("acct_A", HOUR, Traffic(11, 22, 33))]
    ledger.mark_written(sums, HOUR)
    assert ledger.list_unwritten() == []
    ledger.add("acct_A", HOUR, Traffic(1, 0, 0))
    assert ledger.list_unwritten() == [HourlyUsage("acct_A", HOUR, Traffic(12, 22, 33))]


def test_what_was_written_at_different_times_is_written_once() -> None:
    ledger = Ledger()
    for account in ("acct_A", "acct_B"):
        ledger.add(account, HOUR, Traffic(1, 2, 3))
    first, second = ledger.list_unwritten()
    ledger.mark_written([first], HOUR)
    ledger.mark_written([second], HOUR)
    assert ledger.list_unwritten() == []


def test_an_hour_that_is_over_is_written_until_the_store_has_its_last_sum() -> None:
    ledger = Ledger()
    ledger.add("acct_A", HOUR, Traffic(1, 1, 1))
    sums = ledger.list_unwritten()
    ledger.add("acct_A", HOUR, Traffic(1, 1, 1))
    ledger.add("acct_A", NEXT, Traffic(5, 5, 5))
    ledger.mark_written(sums, NEXT)
    assert ledger.list_unwritten() == [
        HourlyUsage("acct_A", HOUR, Traffic(2, 2, 2)),
        HourlyUsage("acct_A", NEXT, Traffic(5, 5, 5)),
    ]
    ledger.mark_written(ledger.list_unwritten(), NEXT)
    ledger.add("acct_A", NEXT, Traffic(1, 1, 1))
    assert ledger.list_unwritten() == [HourlyUsage("acct_A", NEXT, Traffic(6, 6, 6))]


def test_the_next_process_writes_what_a_killed_one_had_not() -> None:
    ledger = Ledger()
    ledger.add("acct_A", HOUR, Traffic(1, 2, 3))
    assert parse(ledger.to_text("gw-1")) == ("gw-1", [HourlyUsage("acct_A", HOUR, Traffic(1, 2, 3))])


@pytest.mark.parametrize("text", ["", "{", "[]x"])
def test_a_file_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="line 1"):
        parse(text)
