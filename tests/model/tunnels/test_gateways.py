"""The record of a gateway: its lease, its end, and the claim of its sweep."""

from dataclasses import replace

import pytest

from chalicelib import clock
from chalicelib.model.tunnels import gateways
from chalicelib.model.tunnels.gateways import GATEWAYS, Gateway
from chalicelib.storage.client import dynamodb
from chalicelib.storage.records import change_log
from tests.gateway_leases import set_lease
from tests.transports import Client

ONE = Gateway("gw-1", "192.0.2.1", 4433, region="west", ssh_address="ssh.example.com:22", host_keys=("key",))


@pytest.fixture(autouse=True)
def announced(admin: Client) -> None:
    assert gateways.announce(ONE, lease=60)


def count_log_entries() -> int:
    """Return how many entries of the log name the gateway."""
    changes = change_log.read_since(clock.seconds() - 60)
    return sum(item_key == (GATEWAYS, "gw-1") for change in changes for item_key in change.item_keys)


def fields(gateway: Gateway | None) -> tuple[object, ...]:
    assert gateway
    return (gateway.host, gateway.port, gateway.region, gateway.ssh_address, gateway.host_keys, gateway.draining)


def test_a_gateway_is_live_while_its_lease_runs() -> None:
    assert fields(gateways.read("gw-1")) == fields(ONE)
    set_lease("gw-1", 0)
    (gateway,) = gateways.list_gateways()
    assert (gateways.read("gw-1"), gateway, gateway.is_live, gateway.ended) == (None, ONE, False, 0)


def test_an_id_is_announced_once() -> None:
    assert not gateways.announce(replace(ONE, port=1), lease=60)
    assert gateways.list_gateways()[0].port == ONE.port


def test_its_record_has_no_expiry() -> None:
    record = dynamodb.get(GATEWAYS, "gw-1")
    assert record
    assert "expires" not in record
    gateways.renew("gw-1", lease=60)
    record = dynamodb.get(GATEWAYS, "gw-1")
    assert record
    assert "expires" not in record


def test_a_renewal_requires_a_live_gateway() -> None:
    set_lease("gw-1", 1)
    before = count_log_entries()
    assert gateways.renew("gw-1", lease=60)
    assert gateways.list_gateways()[0].lease >= clock.seconds() + 59
    assert count_log_entries() == before
    set_lease("gw-1", 0)
    assert not gateways.renew("gw-1", lease=60)
    assert not gateways.renew("gw-2", lease=60)
    assert [gateway.id for gateway in gateways.list_gateways()] == ["gw-1"]


def test_an_ended_gateway_never_comes_back() -> None:
    set_lease("gw-1", -6)
    assert gateways.fence("gw-1")
    set_lease("gw-1", 60)  # not even if its lease could run
    assert gateways.read("gw-1") is None
    assert not gateways.renew("gw-1", lease=60)
    assert not gateways.change(replace(ONE, draining=True))
    assert not gateways.announce(ONE, lease=60)


@pytest.mark.parametrize(
    ("lease", "ended", "seconds"), [(10, 0, 10), (0, 0, 6), (-5, 0, 1), (-6, 0, float("inf")), (10, 1, float("inf"))]
)
def test_the_next_state_of_a_gateway_is_the_end_of_its_lease_and_then_its_fence(
    monkeypatch: pytest.MonkeyPatch, lease: int, ended: int, seconds: float
) -> None:
    monkeypatch.setattr(clock, "seconds", lambda: 1000)
    assert replace(ONE, lease=1000 + lease, ended=ended).seconds_to_next_state() == seconds


@pytest.mark.parametrize(("seconds", "ends"), [(60, False), (0, False), (-4, False), (-7, True)])
def test_a_gateway_is_fenced_after_the_clock_skew(seconds: int, ends: bool) -> None:
    set_lease("gw-1", seconds)
    before = count_log_entries()
    assert gateways.fence("gw-1") is ends
    assert bool(gateways.list_gateways()[0].ended) is ends
    assert count_log_entries() - before == ends
    assert not (ends and gateways.fence("gw-1"))  # once


def test_a_renewal_prevents_the_fence_that_another_process_has_decided() -> None:
    set_lease("gw-1", 1)
    gateways.renew("gw-1", lease=60)
    assert not gateways.fence("gw-1")


def test_a_change_of_a_live_gateway_is_logged_and_keeps_its_lease() -> None:
    before, lease = count_log_entries(), gateways.list_gateways()[0].lease
    assert gateways.change(replace(ONE, port=5000, draining=True))
    gateway = gateways.read("gw-1")
    assert gateway
    assert (gateway.port, gateway.draining, gateway.lease, count_log_entries() - before) == (5000, True, lease, 1)
    set_lease("gw-1", 0)
    assert not gateways.change(ONE)


def test_a_gateway_that_drains_is_not_listed_for_clients() -> None:
    assert gateways.list_for_clients() == [ONE]
    gateways.change(replace(ONE, draining=True))
    assert gateways.list_for_clients() == []


def test_only_an_ended_gateway_is_swept_and_by_one_host() -> None:
    assert not gateways.claim_sweep("gw-1", seconds=60)
    gateways.leave("gw-1")
    assert gateways.claim_sweep("gw-1", seconds=0)
    assert gateways.claim_sweep("gw-1", seconds=60)
    assert not gateways.claim_sweep("gw-1", seconds=60)


def test_the_lease_of_a_gateway_that_leaves_ends_with_it() -> None:
    gateways.leave("gw-1")
    (gateway,) = gateways.list_gateways()
    assert gateway.ended
    assert gateway.lease <= clock.seconds()


def test_a_malformed_record_of_a_gateway_is_no_end_of_its_lease() -> None:
    dynamodb.do(dynamodb.Write.update(GATEWAYS, "gw-1", dynamodb.Condition(""), sets={"body": {"host": 7}, "lease": 0}))
    record = dynamodb.get(GATEWAYS, "gw-1")
    assert gateways.end_lease(record) is None
    assert gateways.end_lease(None) == []


def test_only_an_ended_gateway_is_removed() -> None:
    gateways.remove("gw-1")
    assert gateways.read("gw-1")
    gateways.leave("gw-1")
    assert gateways.read("gw-1") is None
    before = count_log_entries()
    gateways.remove("gw-1")
    assert (gateways.list_gateways(), count_log_entries() - before) == ([], 1)


def test_a_gateway_of_an_earlier_version_comes_back_with_its_next_record() -> None:
    set_lease("gw-1", -6)
    gateways.fence("gw-1")
    body = {"host": "192.0.2.1", "port": 4433}
    dynamodb.do(
        dynamodb.Write.update(
            GATEWAYS,
            "gw-1",
            dynamodb.Condition(""),
            sets={"body": body, "lease": clock.seconds() + 60, "expires": clock.seconds() + 86_460},
        )
    )
    assert gateways.read("gw-1") == Gateway("gw-1", "192.0.2.1", 4433)
