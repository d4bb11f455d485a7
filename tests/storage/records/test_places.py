"""Where the records of items are, in each format."""

import pytest

from chalicelib.storage.records import places

EDGE, ROUTE = "edghts_1", "edghtsrt_1"
OF_A_ROUTE = (f"acct_1#/edges/https/{EDGE}/routes", ROUTE)


@pytest.mark.parametrize(
    ("place", "item"),
    [
        (("acct_1#/api_keys", "ak_1"), ("acct_1#/api_keys", "ak_1")),
        (OF_A_ROUTE, OF_A_ROUTE),
        (("acct_1#/edges/https/routes", f"{EDGE}/{ROUTE}"), OF_A_ROUTE),
        (("acct_1#/ssh_user_certificates/3", "shcrt_1"), ("acct_1#/ssh_user_certificates", "shcrt_1")),
        (("acct_1#/ssh_host_certificates", "shcrt_1"), ("acct_1#/ssh_host_certificates", "shcrt_1")),
        (("acct_1#/reserved_domains", "a/b"), ("acct_1#/reserved_domains", "a/b")),
    ],
)
def test_a_record_of_any_format_is_of_one_item(place: tuple[str, str], item: tuple[str, str]) -> None:
    assert places.of_item(*place) == item


def test_routes_of_all_edges_are_one_collection_since_format_3(monkeypatch: pytest.MonkeyPatch) -> None:
    assert places.collected(OF_A_ROUTE[0]) == ("acct_1#/edges/https/routes", f"{EDGE}/")
    for setting, written in (("2", OF_A_ROUTE), ("3", ("acct_1#/edges/https/routes", f"{EDGE}/{ROUTE}"))):
        monkeypatch.setenv("RECORD_FORMAT", setting)
        assert places.written(*OF_A_ROUTE) == places.lasting(places.latest(*OF_A_ROUTE)) == written
        assert {OF_A_ROUTE, places.latest(*OF_A_ROUTE)} == {*places.possible(*OF_A_ROUTE)}


@pytest.mark.parametrize(
    ("settings", "number"),
    [
        ({}, 4),
        ({"RECORD_FORMAT": "2"}, 2),
        ({"RECORD_FORMAT": "", "RECORDS_EDITION": "3"}, 3),
        ({"RECORD_FORMAT": "4", "RECORDS_EDITION": "3"}, 4),
    ],
)
def test_the_format_is_a_setting(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], number: int) -> None:
    for name in ("RECORD_FORMAT", "RECORDS_EDITION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert (places.written_format(), places.is_latest_format()) == (number, number == 4)
    assert places.is_format_selected() is bool(settings)
