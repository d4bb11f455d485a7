"""Names of dead gateways: who takes them, when, and with how many calls."""

import pytest

from chalicelib.model.tunnels import gateways, online_tunnels
from chalicelib.model.tunnels.gateways import Gateway
from edge.store.records import Grant, NameTaken, Opening
from edge.store.table import Store
from tests.gateway_leases import set_lease
from tests.queries import calls
from tests.transports import Client
from tests.tunnels import NAME, OTHER, list_ends

OLD, NEW = Gateway("gw-1", "192.0.2.1", 7000), Gateway("gw-2", "192.0.2.2", 7000)


@pytest.fixture
def table(admin: Client) -> Store:
    store = Store("local", "tunnels.localhost")
    for gateway in (OLD, NEW):
        assert gateways.announce(gateway, lease=60)
    return store


def open_at(table: Store, client: Client, gateway: Gateway, *, credential: str = "sshcr_1", name: str = NAME) -> str:
    grant = Grant(client.account, credential, ())
    opening = Opening(grant, gateway.id, "ts_1", "192.0.2.9", name, f"https://{name}")
    return table.open(opening, most=100).id


def seconds_of_end(client: Client) -> int:
    (event,) = client.get("/audit_events?action=tunnel.delete").json["audit_events"]
    return int(event["details"]["seconds"])


@pytest.mark.parametrize(("lease", "is_free"), [(60, False), (1, False), (-3, False), (-6, True)])
def test_another_credential_takes_a_name_after_the_clock_skew(
    table: Store, admin: Client, stranger: Client, lease: int, is_free: bool
) -> None:
    old = open_at(table, admin, OLD)
    set_lease(OLD.id, lease)
    if not is_free:
        with pytest.raises(NameTaken):
            open_at(table, stranger, NEW)
        assert (list_ends(admin), gateways.read_each([OLD.id])[OLD.id].ended) == ([], 0)
        return
    new = open_at(table, stranger, NEW)
    assert list_ends(admin) == [(old, "edge")]
    assert gateways.read_each([OLD.id])[OLD.id].ended
    assert [tunnel["id"] for tunnel in stranger.get("/tunnels").json["tunnels"]] == [new]
    assert online_tunnels.read_tunnels_of_gateway(OLD.id) == []


def test_the_same_credential_takes_its_name_at_once(table: Store, admin: Client) -> None:
    old = open_at(table, admin, OLD)
    new = open_at(table, admin, NEW)
    assert list_ends(admin) == [(old, "edge")]
    assert online_tunnels.read_tunnels_of_gateway(OLD.id) == []
    assert [tunnel.id for tunnel in online_tunnels.list_online(admin.account)] == [new]


def test_a_name_of_a_gateway_without_a_record_is_free(table: Store, admin: Client, stranger: Client) -> None:
    old = open_at(table, admin, OLD)
    gateways.leave(OLD.id)
    gateways.remove(OLD.id)
    open_at(table, stranger, NEW)
    assert list_ends(admin) == [(old, "edge")]


def test_the_seconds_of_an_end_are_counted_to_the_end_of_the_lease(
    table: Store, admin: Client, stranger: Client
) -> None:
    open_at(table, admin, OLD)
    set_lease(OLD.id, -20)
    open_at(table, stranger, NEW)
    assert seconds_of_end(admin) == 0


@pytest.mark.parametrize("is_fenced", [False, True])
def test_a_name_of_a_dead_gateway_takes_three_calls_more(
    table: Store, admin: Client, stranger: Client, is_fenced: bool
) -> None:
    open_at(table, admin, OLD)
    open_at(table, stranger, NEW, name="first.tunnels.localhost")  # reads what the process reads once
    set_lease(OLD.id, -6)
    if is_fenced:
        assert gateways.fence(OLD.id)
    with calls() as free:
        open_at(table, stranger, NEW, name=OTHER)
    with calls() as takeover_calls:
        open_at(table, stranger, NEW, credential="sshcr_2")
    assert len(takeover_calls) <= len(free) + 3, takeover_calls


def test_a_reservation_takes_a_name_of_a_dead_gateway(table: Store, admin: Client, stranger: Client) -> None:
    old = open_at(table, admin, OLD)
    set_lease(OLD.id, -6)
    stranger.create("/reserved_domains", {"domain": NAME})
    assert list_ends(admin) == [(old, "edge")]


def test_the_operator_s_list_ends_what_no_gateway_has(table: Store, admin: Client) -> None:
    old = open_at(table, admin, OLD)
    gateways.leave(OLD.id)
    gateways.remove(OLD.id)
    assert online_tunnels.end_all_offline(admin.account) == []
    assert list_ends(admin) == [(old, "edge")]
