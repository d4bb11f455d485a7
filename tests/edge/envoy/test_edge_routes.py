"""The routes of edges, and the paths that they refuse as ambiguous."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import re2

from chalicelib.model.edges import ip_policies
from chalicelib.model.edges.modules.user_agent_filter import UserAgentModule
from chalicelib.model.edges.served import ServedRoute
from chalicelib.model.serving.edge_plans import Plan
from edge.envoy import edge_routes, v3
from edge.envoy.filters import visitor_addresses
from tests.edge.envoy import messages
from tests.edge.envoy.edge_values import planned
from tests.edge.plan.worlds import EDGE, GATEWAY, GROUP, HOST, edge, group, plan_of, route, tunnel


def hosts_of(plan: Plan) -> Sequence[v3.VirtualHost]:
    config = v3.RouteConfiguration()
    edge_routes.add_edge_hosts(config, plan)
    return config.virtual_hosts


def domains_of(plan: Plan) -> list[Any]:
    return [list(host.domains) for host in hosts_of(plan)]


def test_hosts_that_are_not_live_are_in_no_route() -> None:
    assert domains_of(planned(hosts=[HOST, "shop.example.com"])) == [[HOST]]
    assert domains_of(planned(hosts=["shop.example.com"])) == []


def test_grpc_goes_to_a_group_by_http2() -> None:
    host = messages.to_json(hosts_of(planned())[0])
    _, first, second, *_ = host["routes"]
    assert (first["match"]["grpc"], first["route"]["cluster"]) == ({}, f"group/{GROUP}/http2")
    assert (second["route"]["cluster"], second["route"]["timeout"]) == (f"group/{GROUP}", "0s")
    assert host["domains"] == [HOST]


def test_the_ip_policies_of_an_edge_refuse_visitors_of_its_hosts() -> None:
    expected = v3.VirtualHost()
    visitor_addresses.restrict(expected, ip_policies.REFUSE_ALL)
    (host,) = hosts_of(replace(planned(), refusals=ip_policies.REFUSE_ALL))
    key = visitor_addresses.FILTER.name
    assert host.typed_per_filter_config[key] == expected.typed_per_filter_config[key]


def test_the_routes_of_a_proxied_edge_lead_to_the_clusters_that_name_visitors() -> None:
    (host,) = hosts_of(replace(planned(), is_proxied=True))
    cluster_names = [route.route.cluster for route in host.routes if route.route.cluster]
    assert cluster_names == [f"group/{GROUP}/proxied/http2", f"group/{GROUP}/proxied"]


FILTER = UserAgentModule(deny=["bot"])


@pytest.mark.parametrize(
    ("routes", "is_refusing"),
    [
        ([route(agents=FILTER)], False),
        ([route(), route("/a", id="edghtsrt_2")], False),
        ([route(), route("/a", id="edghtsrt_2", agents=FILTER)], True),
        ([route(), route("/a", id="edghtsrt_2", unenforced=("oauth",))], True),
    ],
)
def test_where_one_of_several_routes_holds_visitors_back_ambiguous_paths_are_refused(
    routes: Sequence[ServedRoute], is_refusing: bool
) -> None:
    plan = plan_of(EDGE, GATEWAY, tunnel(), group(), edge(*routes))
    host = messages.to_json(hosts_of(plan)[0])
    challenges, first, *_ = host["routes"]
    assert challenges["match"]["prefix"] == "/.well-known/acme-challenge/"
    assert (first.get("direct_response", {}).get("status") == 400) is is_refusing
    if is_refusing:
        (condition,) = first["match"]["headers"]
        regex = condition["string_match"]["safe_regex"]["regex"]
        assert [path for path in (*PLAIN_PATHS, *AMBIGUOUS_PATHS) if re2.fullmatch(regex, path)] == AMBIGUOUS_PATHS


PLAIN_PATHS = [
    "/",
    "/a",
    "/a/",
    "/a.b/.c/..d",
    "/a?//",
    "/a?b=/../%61",
    "/%20%C3%A9",
    "/a%40b%3Ac%5B%5D%7B%60",
    "/100%25",
    "/a%25zb?;",
]


AMBIGUOUS_PATHS = [
    *("//a", "/b//a", "/./a", "/b/../a", "/b/..", "/b/.?x", "/..;/a", "/b\\a", "/b%5Ca", "/b%2fa", "/b%2F..%2Fa"),
    *("/%61", "/%41", "/%7A", "/%30", "/%2e/a", "/%2D", "/%5f", "/%7e", "/%4f", "/%5a"),
    *("/;/a", "/a;x", "/a%3b", "/x/..%3B/a", "/%252e%252e/a", "/%2561", "/%25252e", "/a%00", "/a%0A", "/a%1f", "/a%7F"),
]
