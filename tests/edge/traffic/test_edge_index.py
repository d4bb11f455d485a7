"""Which edges there are at a host, of an account, below a domain, and lead to a backend: after each change."""

from edge.traffic.edge_index import EdgeIndex
from tests.edge.traffic.worlds import A, B, edge, route, weighted

HOST, OTHER = "a.tunnels.localhost", "b.tunnels.localhost"


def test_a_host_stays_as_long_as_an_edge_of_any_account_has_it() -> None:
    index = EdgeIndex()
    first, second = edge(hosts=(HOST, OTHER)), edge(id="edghts_2", account=B)
    for it in (second, first):
        index.put(it)
    assert (index.at(HOST), index.at(OTHER), index.below("tunnels.localhost")) == (
        [first, second],
        [first],
        [HOST, OTHER],
    )
    assert [sorted(index.hosts(account)) for account in (A, B)] == [[HOST, OTHER], [HOST]]
    index.drop(first)
    assert (index.at(HOST), index.at(OTHER), index.below("tunnels.localhost")) == ([second], [], [HOST])
    index.drop(second)
    assert (index.all_hosts(), index.below("tunnels.localhost"), index.hosts(B)) == (frozenset(), [], frozenset())


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
        assert index.leading_to(A, id) == {led.id}
        assert index.leading_to(B, id) == frozenset()
    index.drop(parents[1])
    assert [index.leading_to(A, id) for id in ("leaf", "bkdwd_2")] == [frozenset(), {led.id}]
    index.drop(led)
    assert [index.leading_to(A, id) for id in ("bkdwd_1", "ca_1")] == [frozenset()] * 2
