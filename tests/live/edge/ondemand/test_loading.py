"""A name that no visitor has requested is served after its first handshake."""

import ssl
from collections.abc import Iterator

import pytest

from chalicelib.model.serving import pages
from edge.envoy.clusters import LINK_SECRET
from edge.envoy.selector import OPERATOR_SECRET
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.ondemand.tables import Table, ask, running

pytestmark = needs_envoy


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    with running(tmp_path_factory.mktemp("edge")) as table:
        yield table


def test_a_cold_name_is_served_and_requested_once(table: Table) -> None:
    table.answer("cold.example.com", "cold")
    assert [table.visit("cold.example.com") for _ in range(3)] == [(200, "cold")] * 3
    assert (table.requests["cold.example.com"], table.errors["cold.example.com"]) == (1, "")


def test_a_name_that_is_not_served_is_refused_each_time(table: Table) -> None:
    for _ in range(2):
        with pytest.raises(ssl.SSLError, match="handshake failure"):
            table.visit("nobody.example.com")
    assert table.requests["nobody.example.com"] == 2


def test_an_unknown_name_shows_its_page(table: Table) -> None:
    table.unknown.add("unknown.tunnels.localhost")
    assert table.visit("unknown.tunnels.localhost") == (404, pages.NO_TUNNEL)


def test_a_connection_serves_only_its_own_name(table: Table) -> None:
    for name in ("one.example.com", "two.example.com"):
        table.answer(name, name)
    assert table.visit("two.example.com") == (200, "two.example.com")
    with table.connect("one.example.com") as connection:
        assert ask(connection, "two.example.com") == (421, pages.MISDIRECTED)
        assert ask(connection, "two.example.com", "/", "x-envoy-scope: two.example.com") == (421, pages.MISDIRECTED)
        assert ask(connection, "one.example.com") == (200, "one.example.com")


@pytest.mark.parametrize("name", ["link", "Link", LINK_SECRET[:255], "operator", OPERATOR_SECRET[:255]])
def test_a_visitor_cannot_select_a_secret_for_another_purpose(table: Table, name: str) -> None:
    with pytest.raises(ssl.SSLError, match="handshake failure"):
        table.visit(name)
    assert table.requests[name] == 1


def test_envoy_requests_a_name_as_the_visitor_spells_it(table: Table) -> None:
    table.answer("spelled.example.com", "spelled")
    assert table.visit("Spelled.Example.com", "spelled.example.com") == (200, "spelled")
    assert (table.requests["Spelled.Example.com"], table.requests["spelled.example.com"]) == (1, 0)


def test_a_visitor_without_a_server_name_sees_the_operators_certificate(table: Table) -> None:
    table.answer("named.example.com", "named")
    assert table.visit("named.example.com") == (200, "named")
    with table.connect("") as connection:
        certificate = connection.getpeercert()
        assert certificate
        assert certificate["subjectAltName"] == (("DNS", "operator.example"),)
        assert ask(connection, "named.example.com") == (404, pages.NO_TUNNEL)
        assert ask(connection, "named.example.com", "/", "x-envoy-scope: named.example.com") == (404, pages.NO_TUNNEL)
