"""Which names of the stored list are special, shielded or closed."""

from dataclasses import replace

import pytest

from chalicelib.model.names.special_names import SpecialEntry, SpecialOwner
from chalicelib.model.tunnels.tunnels import Proto
from edge.serving import special_plans
from tests.edge.plan import worlds
from tests.edge.plan.worlds import GATEWAY, HOST, SERVICE, A, records_of

EDGE = worlds.edge(worlds.route(), hosts=["*.team.tunnels.localhost"], authorities=["ca_1"])
OPEN, CLOSED = "open.team.tunnels.localhost", "closed.team.tunnels.localhost"


@pytest.mark.parametrize(("proto", "expected"), [("tls", [HOST]), ("https", [])])
def test_a_tunnel_of_the_list_is_special_only_with_tls_passthrough(proto: Proto, expected: list[str]) -> None:
    tunnel = worlds.tunnel(f"tn_{'1' * 27}", name=HOST, proto=proto)
    entry = SpecialEntry(SpecialOwner(A, tunnel.id), (f"{HOST}:443",))
    plans = special_plans.make_plans([entry], records_of(GATEWAY, tunnel), SERVICE)
    assert [tunnel.name for tunnel in plans.tunnels] == expected


def test_hosts_below_a_special_wildcard_are_shielded_unless_they_are_closed() -> None:
    edge = replace(EDGE, id=f"edghts_{'1' * 27}")
    records = records_of(GATEWAY, worlds.authority(), worlds.group(), worlds.tunnel(), edge)
    entry = SpecialEntry(SpecialOwner(A, edge.id), edge.hostports)
    hosts = [OPEN, CLOSED, "other.tunnels.localhost"]
    plans = special_plans.make_plans([entry], records, SERVICE, hosts, frozenset({CLOSED}))
    assert (plans.below, plans.closed) == (frozenset({OPEN}), frozenset({CLOSED}))
