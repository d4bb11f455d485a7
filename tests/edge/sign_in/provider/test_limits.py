"""Bounds of concurrent exchanges."""

from contextlib import ExitStack

import pytest

from edge.sign_in.provider.limits import ExchangeLimits, TooManyExchanges


def count(limits: ExchangeLimits, account: str, *addresses: str) -> int:
    """Return how many exchanges may run at once for some visitors."""
    with ExitStack() as running:
        for number, address in enumerate(addresses):
            try:
                running.enter_context(limits.track(account, address))
            except TooManyExchanges:
                return number
    return len(addresses)


def test_an_account_may_use_a_quarter_and_an_address_eight() -> None:
    limits = ExchangeLimits(40)
    assert count(limits, "a", *(f"192.0.2.{number}" for number in range(40))) == 10
    assert count(limits, "a", *["192.0.2.1"] * 20) == 8
    assert count(limits, "a", *[""] * 20) == 10  # checks have no address
    assert count(limits, "a", *(f"2001:db8::{number:x}" for number in range(20))) == 8  # one visitor has a whole /64
    assert count(limits, "a", *(f"2001:db8:0:{number:x}::1" for number in range(20))) == 10


def test_accounts_share_the_rest() -> None:
    limits = ExchangeLimits(8)
    with ExitStack() as running:
        for account in "abcd":
            for _ in range(2):
                running.enter_context(limits.track(account))
        with pytest.raises(TooManyExchanges), limits.track("e"):
            pass
    assert count(limits, "e", *(f"192.0.2.{number}" for number in range(3))) == 2
