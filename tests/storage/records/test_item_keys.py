"""Where the records of items are, in each format."""

import pytest

from chalicelib.storage.records import item_keys

EDGE, ROUTE = "edghts_1", "edghtsrt_1"
OF_A_ROUTE = (f"acct_1#/edges/https/{EDGE}/routes", ROUTE)


@pytest.mark.parametrize(
    ("item_key", "item"),
    [
        (("acct_1#/api_keys", "ak_1"), ("acct_1#/api_keys", "ak_1")),
        (OF_A_ROUTE, OF_A_ROUTE),
        (("acct_1#/edges/https/routes", f"{EDGE}/{ROUTE}"), OF_A_ROUTE),
        (("acct_1#/ssh_user_certificates/3", "shcrt_1"), ("acct_1#/ssh_user_certificates", "shcrt_1")),
        (("acct_1#/ssh_host_certificates", "shcrt_1"), ("acct_1#/ssh_host_certificates", "shcrt_1")),
        (("acct_1#/reserved_domains", "a/b"), ("acct_1#/reserved_domains", "a/b")),
    ],
)
def test_a_record_of_any_format_is_of_one_item(item_key: tuple[str, str], item: tuple[str, str]) -> None:
    assert item_keys.find_item(*item_key) == item


def test_routes_of_all_edges_are_one_collection_since_format_3(monkeypatch: pytest.MonkeyPatch) -> None:
    assert item_keys.find_collection(OF_A_ROUTE[0]) == ("acct_1#/edges/https/routes", f"{EDGE}/")
    for setting, expected in (("2", OF_A_ROUTE), ("3", ("acct_1#/edges/https/routes", f"{EDGE}/{ROUTE}"))):
        monkeypatch.setenv("RECORD_FORMAT", setting)
        assert (
            item_keys.build_new(*OF_A_ROUTE)
            == item_keys.build_migrated(item_keys.build_latest(*OF_A_ROUTE))
            == expected
        )
        assert {OF_A_ROUTE, item_keys.build_latest(*OF_A_ROUTE)} == {*item_keys.list_possible(*OF_A_ROUTE)}


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
    assert (item_keys.written_format(), item_keys.is_latest_format()) == (number, number == 4)
    assert item_keys.is_format_selected() is bool(settings)
