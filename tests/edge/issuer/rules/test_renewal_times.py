"""When a certificate is renewed: by the CA's window, by fractions of the lifetime, and what counts as urgent."""

import pytest

from edge.issuer.rules import renewal_times
from edge.issuer.rules.renewal_times import Plan, RenewalWindow, Validity

DAY = 86400


@pytest.mark.parametrize(("days", "fraction"), [(90, 30), (64, 64 / 3), (45, 15), (10, 10 / 3), (6, 3), (1, 0.5)])
def test_without_a_window_a_fraction_of_the_lifetime_is_left(days: int, fraction: float) -> None:
    validity = Validity(1000, 1000 + days * DAY)
    expected = Plan(validity.end - int(fraction * DAY), 0)
    assert renewal_times.plan("cert_1", validity, None, 1000) == expected
    assert expected.due_at == expected.renews_at


def test_a_time_in_the_window_stays_the_same() -> None:
    validity, window = Validity(0, 90 * DAY), RenewalWindow(50 * DAY, 60 * DAY, 6 * 3600)
    plans = {id: renewal_times.plan(id, validity, window, DAY) for id in ("cert_1", "cert_2", "cert_3")}
    assert all(window.start <= plan.renews_at < window.end for plan in plans.values())
    assert len({plan.renews_at for plan in plans.values()}) == 3
    later = renewal_times.plan("cert_1", validity, window, 2 * DAY)
    assert later == Plan(plans["cert_1"].renews_at, 2 * DAY + 6 * 3600)
    assert later.due_at == later.rechecks_at


def test_a_window_in_the_past_is_due_at_once() -> None:
    plan = renewal_times.plan("cert_1", Validity(0, 90 * DAY), RenewalWindow(0, 10, 60), DAY)
    assert plan.renews_at <= 10
    assert plan.due_at == plan.renews_at


@pytest.mark.parametrize(("retry_after", "seconds"), [(0, 60), (59, 60), (60, 60), (21600, 21600), (9 * DAY, DAY)])
def test_the_window_is_requested_again_after_a_minute_to_a_day(retry_after: int, seconds: int) -> None:
    window = RenewalWindow(50 * DAY, 60 * DAY, retry_after)
    assert renewal_times.plan("cert_1", Validity(0, 90 * DAY), window, 7).rechecks_at == 7 + seconds


@pytest.mark.parametrize(("fraction", "is_late"), [(0.21, False), (0.2, True), (0.16, True)])
def test_a_fifth_of_a_lifetime_is_late_and_a_sixth_urgent(fraction: float, is_late: bool) -> None:
    validity = Validity(0, 90 * DAY)
    assert validity.is_late(validity.end - int(fraction * validity.lifetime)) is is_late
    assert validity.urgent_at == 75 * DAY
