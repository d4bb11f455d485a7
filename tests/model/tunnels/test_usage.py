"""What went through an account's tunnels, as gateways write it and the operator reads it."""

import pytest

from chalicelib.model.tunnels import usage
from chalicelib.model.tunnels.tunnels import Traffic
from chalicelib.operator import tunnels
from chalicelib.operator.command_line import CommandError
from tests.transports import Client


def test_a_day_is_the_sum_of_its_hours_and_gateways_and_a_sum_written_twice_counts_once(admin: Client) -> None:
    for hour, gateway, traffic in [
        ("2026-11-22T14", "gw-1", Traffic(1, 10, 100)),
        ("2026-11-22T14", "gw-1", Traffic(2, 20, 200)),
        ("2026-11-22T14", "gw-2", Traffic(3, 30, 300)),
        ("2026-11-22T15", "gw-1", Traffic(4, 40, 400)),
        ("2026-11-23T00", "gw-1", Traffic(5, 50, 500)),
        ("2026-12-01T00", "gw-1", Traffic(6, 60, 600)),
    ]:
        usage.write(admin.account, hour, gateway, traffic)

    assert tunnels.read_usage(admin.account, "2026-11") == {
        "2026-11-22": Traffic(9, 90, 900),
        "2026-11-23": Traffic(5, 50, 500),
    }
    assert tunnels.read_usage(admin.account, "2026-12") == {"2026-12-01": Traffic(6, 60, 600)}
    assert tunnels.read_usage("acct_other", "2026-11") == {}


@pytest.mark.parametrize("month", ["2026", "2026-13", "2026-11-01", "x"])
def test_what_is_no_month_is_refused(month: str) -> None:
    with pytest.raises(CommandError, match="is not a month"):
        tunnels.read_usage("acct_A", month)
