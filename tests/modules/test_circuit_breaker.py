"""Circuit breakers: values that the edge cannot obey, and zeros of clients that send every field."""

import pytest

from tests.transports import Client

DEFAULTS = {
    "enabled": True,
    "tripped_duration": 10,
    "rolling_window": 10,
    "num_buckets": 10,
    "volume_threshold": 10,
    "error_threshold_percentage": 0.5,
}


def path(admin: Client) -> str:
    edge = admin.create("/edges/https", {})["id"]
    route = admin.create(f"/edges/https/{edge}/routes", {"match_type": "path_prefix", "match": "/"})["id"]
    return f"/edges/https/{edge}/routes/{route}/circuit_breaker"


@pytest.mark.parametrize("share", [0.001, 0.125, 1.01, 50, -1])
def test_a_share_that_the_edge_cannot_obey_is_refused(admin: Client, share: float) -> None:
    answer = admin.put(path(admin), {"error_threshold_percentage": share})
    assert answer.status == 400
    assert list(answer.json["details"].keys() - {"operation_id"}) == ["error_threshold_percentage"]


def test_each_field_out_of_its_bounds_is_reported(admin: Client) -> None:
    body = {"tripped_duration": 3601, "rolling_window": -1, "num_buckets": 129, "volume_threshold": 1_000_001}
    details = admin.put(path(admin), body).json["details"]
    assert sorted(details.keys() - {"operation_id"}) == sorted(body), details


def test_zeros_are_the_defaults(admin: Client) -> None:
    assert admin.put(path(admin), dict.fromkeys(DEFAULTS.keys() - {"enabled"}, 0)).json == DEFAULTS


@pytest.mark.parametrize("percent", [1, 7, 29, 57, 58, 100])
def test_a_share_is_shown_as_it_was_sent(admin: Client, percent: int) -> None:
    share = percent / 100
    address = path(admin)
    assert admin.put(address, {"error_threshold_percentage": share}).json["error_threshold_percentage"] == share
    assert admin.get(address).json["error_threshold_percentage"] == share
