"""What went through an account's tunnels, as gateways write it and the operator reads it."""

import pytest

from chalicelib import traffic
from chalicelib.model.tunnels import Usage
from chalicelib.operations import CommandError
from edge.store.table import TableStore
from tests.transports import Client


def test_a_day_is_the_sum_of_its_hours_and_gateways_and_a_sum_written_twice_counts_once(admin: Client) -> None:
    store = TableStore("local", "tunnels.localhost")
    for hour, gateway, usage in [
        ("2026-11-22T14", "gw-1", Usage(1, 10, 100)),
        ("2026-11-22T14", "gw-1", Usage(2, 20, 200)),
        ("2026-11-22T14", "gw-2", Usage(3, 30, 300)),
        ("2026-11-22T15", "gw-1", Usage(4, 40, 400)),
        ("2026-11-23T00", "gw-1", Usage(5, 50, 500)),
        ("2026-12-01T00", "gw-1", Usage(6, 60, 600)),
    ]:
        store.write_usage(admin.account, hour, gateway, usage)

    assert traffic.usage(admin.account, "2026-11") == {
        "2026-11-22": Usage(9, 90, 900),
        "2026-11-23": Usage(5, 50, 500),
    }
    assert traffic.usage(admin.account, "2026-12") == {"2026-12-01": Usage(6, 60, 600)}
    assert traffic.usage("acct_other", "2026-11") == {}


@pytest.mark.parametrize("month", ["2026", "2026-13", "2026-11-01", "x"])
def test_what_is_no_month_is_refused(month: str) -> None:
    with pytest.raises(CommandError, match="is no month"):
        traffic.usage("acct_A", month)
