"""Counts of orders in the table: bounds that all issuers share."""

import pytest

from chalicelib.storage.client import dynamodb
from edge.issuer.attempts import AttemptFailed
from edge.issuer.order_counts import OrderCounts
from edge.issuer.rules.order_bounds import Bound, OrderBounds

NOW = 1_800_000_000
DOMAIN = "app.example.co.uk"
COUNTS = OrderCounts(
    OrderBounds(
        failed=Bound(1, 100, "failed"),
        issued=Bound(1, 100, "issued"),
        account=Bound(3, 100, "account"),
        service=Bound(4, 50, "every"),
        registered=Bound(2, 100, "registered"),
    )
)

pytestmark = pytest.mark.usefixtures("admin")


def limit(account: str = "acct_1", domain: str = DOMAIN, *, now: int = NOW, replaces: bool = False) -> str:
    """Return the bound that is reached, and for how long."""
    order_limit = COUNTS.find_limit(account, domain, now, replaces=replaces)
    return f"{order_limit.sentence} {order_limit.not_before - now}" if order_limit else ""


def count(account: str = "acct_1", domain: str = DOMAIN, *, now: int = NOW, replaces: bool = False) -> None:
    COUNTS.count(account, domain, now, replaces=replaces)


def test_orders_count_for_their_account_and_their_registered_domain() -> None:
    count(domain="a.example.co.uk")
    assert limit() == ""
    count("acct_2", "*.b.example.co.uk")
    assert limit("acct_3") == "registered 100"
    assert limit(domain="example.com") == ""
    for _ in range(2):
        count(domain="example.com")
    assert limit(domain="example.org") == "account 100"
    assert limit("acct_3", "example.org") == "every 50"
    assert limit("acct_3", "example.org", now=NOW + 50) == ""
    assert limit(now=NOW + 100) == ""


def test_renewals_count_for_their_account_only() -> None:
    for _ in range(3):
        count(replaces=True)
    assert (limit(replaces=True), limit("acct_2"), COUNTS.list_all(NOW)) == ("account 100", "", [])


def test_failed_orders_and_issued_certificates_count_for_the_domain() -> None:
    COUNTS.count_failed(DOMAIN, NOW)
    dynamodb.do(COUNTS.count_issued("other.example.com", NOW))
    assert [limit("acct_9"), limit("acct_9", replaces=True)] == ["failed 100"] * 2
    assert limit("acct_9", "other.example.com") == "issued 100"
    assert limit("acct_9", "other.example.com", replaces=True) == ""


def test_issuers_that_checked_at_the_same_time_do_not_exceed_a_bound() -> None:
    assert [limit(f"acct_{number}", f"{number}.example.com") for number in range(3)] == [""] * 3
    for number in range(2):
        count(f"acct_{number}", f"{number}.example.com")
    with pytest.raises(AttemptFailed):
        count("acct_2", "2.example.com")
    assert len(COUNTS.list_all(NOW)) == 2


def test_a_bound_that_is_reached_says_when_the_next_order_is_admitted() -> None:
    count()
    count(now=NOW + 10)
    with pytest.raises(AttemptFailed) as error:
        count(now=NOW + 20)
    assert error.value.failure.not_before == NOW + 100
    assert error.value.failure.msg == "Wait until the time in 'retries_at': registered."
