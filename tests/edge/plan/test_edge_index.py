"""Which edges there are at a host, of an account, below a domain, and lead to a backend: after each change."""

import pytest

from edge.plan.edge_index import EdgeIndex, hosts_of
from tests.edge.plan.values import A, B
from tests.edge.plan.worlds import edge, route, weighted

HOST, OTHER = "a.tunnels.localhost", "b.tunnels.localhost"


def test_a_host_stays_as_long_as_an_edge_of_any_account_has_it() -> None:
    index = EdgeIndex()
    first, second = edge(hosts=(HOST, OTHER)), edge(id="edghts_2", account=B)
    for it in (second, first):
        index.put(it)
    assert (index.edges_at_host(HOST), index.edges_at_host(OTHER), index.hosts_below("tunnels.localhost")) == (
        [first, second],
        [first],
        [HOST, OTHER],
    )
    assert [sorted(index.hosts_of_account(account)) for account in (A, B)] == [[HOST, OTHER], [HOST]]
    index.drop(first)
    assert (index.edges_at_host(HOST), index.edges_at_host(OTHER), index.hosts_below("tunnels.localhost")) == (
        [second],
        [],
        [HOST],
    )
    index.drop(second)
    assert (index.all_hosts(), index.hosts_below("tunnels.localhost"), index.hosts_of_account(B)) == (
        frozenset(),
        [],
        frozenset(),
    )


def test_what_an_edge_leads_to_leads_back_to_it_through_any_number_of_backends() -> None:
    index = EdgeIndex()
    parents = [
        weighted("bkdwd_1", {"bkdwd_2": 1}),
        weighted("bkdwd_2", {"bkdwd_3": 1}),
        weighted("bkdwd_3", {"leaf": 1}),
    ]
    led = edge(route(backend="bkdwd_1"), authorities=["ca_1"])
    for parent in parents:
        index.put(parent)
    index.put(led)
    for id in ("leaf", "bkdwd_3", "bkdwd_2", "bkdwd_1", "ca_1"):
        assert index.edges_using(A, id) == {led.id}
        assert index.edges_using(B, id) == frozenset()
    index.drop(parents[1])
    assert [index.edges_using(A, id) for id in ("leaf", "bkdwd_2")] == [frozenset(), {led.id}]
    index.drop(led)
    assert [index.edges_using(A, id) for id in ("bkdwd_1", "ca_1")] == [frozenset()] * 2


def test_backends_that_lead_to_one_another_lead_to_their_edges_once() -> None:
    index = EdgeIndex()
    for it in (weighted("bkdwd_1", {"bkdwd_2": 1}), weighted("bkdwd_2", {"bkdwd_1": 1, "leaf": 1})):
        index.put(it)
    led = edge(route(backend="bkdwd_2"))
    index.put(led)
    assert [index.edges_using(A, id) for id in ("leaf", "bkdwd_1", "bkdwd_2")] == [{led.id}] * 3


@pytest.mark.parametrize(
    ("id", "hostports", "hosts", "ports"),
    [
        ("edghts_1", [f"{HOST}:443", f"{OTHER}:8443", f"{OTHER}:443", f"{HOST}:443"], [HOST, OTHER], []),
        ("edgtls_1", [f"{HOST}:8443"], [], []),
        ("edgtcp_1", ["t:1", "u:2", "t:2", "t:443"], ["t:1", "u:2", "t:2", "t:443"], ["1", "2", "443"]),
    ],
)
def test_an_edge_has_its_hosts_at_the_port_of_https_or_its_own_ports(
    id: str, hostports: list[str], hosts: list[str], ports: list[str]
) -> None:
    index, made = EdgeIndex(), edge(id=id, hosts=hostports)
    index.put(made)
    assert (hosts_of(made), sorted(index.all_hosts())) == (hosts, sorted(hosts))
    assert [port for port in ("1", "2", "443", "8443", "3") if index.edges_at_port(port)] == ports
    assert index.tcp_names_at("t") == {it for it in hosts if it.startswith("t:")}
    index.drop(made)
    assert (index.all_hosts(), index.edges_at_port("443"), index.tcp_names_at("t")) == (frozenset(), [], frozenset())


def test_of_the_edges_at_a_port_the_oldest_comes_first() -> None:
    index = EdgeIndex()
    first, second = (edge(id=id, hosts=["t:1"]) for id in ("edgtcp_1", "edgtcp_2"))
    for it in (second, first):
        index.put(it)
    assert index.edges_at_port("1") == [first, second]
