"""The rates that apply, from the limits of an account and the defaults of the deployment."""

import pytest

from chalicelib.model.limits import rates
from chalicelib.model.limits.rates import Rate
from chalicelib.storage.client.aws import Misconfigured

DEFAULTS = {"ACCOUNT_REQUESTS_PER_SECOND": "100", "ACCOUNT_BURST": "150", "ACCOUNT_EVENTS_PER_SECOND": "40"}


@pytest.mark.parametrize(
    ("limits", "defaults", "rate"),
    [
        ({}, {}, None),
        ({}, DEFAULTS, Rate(100, 150)),
        ({}, {"ACCOUNT_REQUESTS_PER_SECOND": "7"}, Rate(7, 7)),
        ({}, {"ACCOUNT_BURST": "7"}, None),
        ({"requests_per_second": 5}, DEFAULTS, Rate(5, 5)),
        ({"requests_per_second": 5, "burst": 9}, DEFAULTS, Rate(5, 9)),
        ({"burst": 9}, DEFAULTS, Rate(100, 9)),
        ({"requests_per_second": 0}, DEFAULTS, None),
        ({"requests_per_second": 0, "burst": 9}, DEFAULTS, None),
    ],
)
def test_an_account_has_its_own_limit_or_the_default(
    limits: dict[str, int], defaults: dict[str, str], rate: Rate | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in defaults.items():
        monkeypatch.setenv(name, value)
    assert rates.find_account_rate(limits) == rate


def test_certificates_and_events_may_come_at_once_for_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCOUNT_EVENTS_PER_SECOND", "40")
    assert (rates.find_event_rate({}), rates.find_certificate_rate({})) == (Rate(40, 80), None)
    assert (
        rates.find_event_rate({"events_per_second": 0}),
        rates.find_certificate_rate({"certificates_per_second": 3}),
    ) == (
        None,
        Rate(3, 6),
    )


def test_a_setting_that_is_no_number_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCOUNT_REQUESTS_PER_SECOND", "many")
    with pytest.raises(Misconfigured):
        rates.find_account_rate({})
