"""The scope of a name: its own hosts, its requirements on handshakes, and the clusters that it uses."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from chalicelib.model.edges.modules.circuit_breaker import CircuitBreakerModule
from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.serving.edge_plans import Plan, PlannedHost, RouteTarget
from chalicelib.model.serving.sites import OPERATOR, Site
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy.clusters import LINK_SECRET
from edge.envoy.names import scopes
from edge.envoy.resources import Key
from edge.envoy.selector import OPERATOR_SECRET
from edge.plan.names import NamePlan
from edge.process.settings import Settings
from tests.edge.edge_modules import extended
from tests.edge.envoy import messages
from tests.edge.plan import worlds
from tests.edge.plan.worlds import ANSWER, GATEWAY, GROUP, A

SETTINGS, NAME = Settings(), "a.example.com"
HOSTS = (
    PlannedHost(NAME, "live", certificate="cert_1"),
    PlannedHost("b.example.com", "live", certificate="cert_1"),
    PlannedHost("other.example.net", "live", certificate="cert_2"),
    PlannedHost("unproved.example.com", "unproved", "error"),
)
TARGET = RouteTarget(worlds.route("/"), ((GROUP, 1), (ANSWER, 1)), online=((GROUP, 1), (ANSWER, 1)))


class Records:
    """A gateway, a group with a tunnel, and a response."""

    gateways = {"gw-1": GATEWAY}
    backends = {GROUP: worlds.group(), ANSWER: worlds.response()}

    def members(self, group: object) -> Sequence[tuple[ServedTunnel, Gateway]]:
        return [(worlds.tunnel(), GATEWAY)]


def plan(**more: Any) -> NamePlan:
    """Return the plan of a name of an edge with several hosts. `more` are arguments of `worlds.edge`."""
    edge = worlds.edge(TARGET.route, hosts=[host.name for host in HOSTS], **more)
    pems = ("PEM",) if edge.modules.values.get("mutual_tls") else ()
    return NamePlan(NAME, A, "cert_1", edge=Plan(edge, HOSTS, trusted=pems, targets=(TARGET,)))


def tunnel(*, proxy_protocol: bool = False) -> NamePlan:
    served_tunnel = replace(worlds.tunnel(name=NAME), proxy_protocol=proxy_protocol)
    return NamePlan(NAME, A, OPERATOR, site=Site(NAME, served_tunnel, OPERATOR))


def test_a_scope_has_the_hosts_that_share_the_certificate() -> None:
    scope = scopes.build_scope(plan())
    assert scope
    body = messages.decode(scope)
    assert (scope.key, body["key"]) == (Key("scope", NAME), {"fragments": [{"string_key": NAME}]})
    hosts = body["route_configuration"]["virtual_hosts"]
    assert [host["domains"] for host in hosts] == [[NAME, "b.example.com"], ["*"]]
    assert hosts[-1]["routes"][0]["direct_response"]["status"] == 421


def test_only_the_hosts_of_an_edge_with_oauth_ask_the_service() -> None:
    """A browser sends requests for all names of a certificate on one connection, which has the filters of one edge."""
    rule = SignInRule("google", "digest", A, "edghts_1", TARGET.route.id)
    route = replace(TARGET.route, modules=extended(TARGET.route.modules, oauth=rule))
    guarded = Plan(worlds.edge(route, hosts=[NAME]), HOSTS, targets=(replace(TARGET, route=route, rule=rule),))
    for scope in (scopes.build_scope(NamePlan(NAME, A, "cert_1", edge=guarded)), scopes.build_closed_scope(NAME)):
        assert scope
        (*_, other_hosts) = messages.decode(scope)["route_configuration"]["virtual_hosts"]
        assert other_hosts["domains"] == ["*"]
        assert other_hosts["typed_per_filter_config"]["sign-in"]["disabled"] is True
    unguarded = scopes.build_scope(plan())
    assert unguarded
    hosts = messages.decode(unguarded)["route_configuration"]["virtual_hosts"]
    assert not any("typed_per_filter_config" in host for host in hosts)


@pytest.mark.parametrize(
    ("name_plan", "prefix"),
    [(plan(), ""), (plan(version="1.2"), ""), (plan(version="1.3"), "1.3/"), (tunnel(), "")],
)
def test_a_scope_is_named_after_the_requirements_on_handshakes(name_plan: NamePlan, prefix: str) -> None:
    assert scopes.scope_name(name_plan) == f"{prefix}{NAME}"


def test_a_scope_behind_mutual_tls_changes_its_name_with_the_authorities() -> None:
    name_plan = plan(authorities=["ca_1"])
    assert name_plan.edge
    other = replace(name_plan, edge=replace(name_plan.edge, trusted=("OTHER",)))
    names = {scopes.scope_name(each_plan) for each_plan in (plan(), name_plan, other)}
    assert len(names) == 3
    assert {name.rpartition("/")[2] for name in names} == {NAME}


@pytest.mark.parametrize(
    ("name_plan", "expected"),
    [
        (tunnel(), ["gw-1", "gw-1/http2"]),
        (tunnel(proxy_protocol=True), ["gw-1/proxied", "gw-1/proxied/http2"]),
        (plan(), ["answer/bkdhr_1", "answer/bkdhr_1", "group/bkdtg_1", "group/bkdtg_1/http2"]),
    ],
)
def test_a_name_needs_only_the_clusters_of_its_routes(name_plan: NamePlan, expected: list[str]) -> None:
    built_clusters = scopes.build_clusters(name_plan, Records(), "PEM", SETTINGS)
    assert [cluster.key.name for cluster in built_clusters] == expected


class NoTunnels(Records):
    """The same records, but the group has no tunnels."""

    def members(self, group: object) -> Sequence[tuple[ServedTunnel, Gateway]]:
        return []


@pytest.mark.parametrize(("records", "expected"), [(Records(), []), (NoTunnels(), ["group/bkdtg_1"])])
def test_only_clusters_of_groups_without_tunnels_are_marked_as_emptied(records: Records, expected: list[str]) -> None:
    built_clusters = scopes.build_clusters(plan(), records, "PEM", SETTINGS)
    assert [cluster.key.name for cluster in built_clusters if cluster.is_emptied] == [
        name for cluster in expected for name in (cluster, f"{cluster}/http2")
    ]


def test_a_route_with_a_circuit_breaker_has_clusters_for_its_groups_only() -> None:
    breaker = CircuitBreakerModule(tripped_duration=30, rolling_window=5, volume_threshold=20, error_percent=20)
    modules = extended(TARGET.route.modules, circuit_breaker=breaker)
    target = replace(TARGET, route=replace(TARGET.route, modules=modules))
    name_plan = plan()
    assert name_plan.edge
    name_plan = replace(name_plan, edge=replace(name_plan.edge, targets=(target,)))
    names = [cluster.key.name for cluster in scopes.build_clusters(name_plan, Records(), "PEM", SETTINGS)]
    shared = [cluster.key.name for cluster in scopes.build_clusters(plan(), Records(), "PEM", SETTINGS)]
    id = target.route.id
    assert names == [*shared, *(f"circuit/{id}/{group}" for group in ("group/bkdtg_1", "group/bkdtg_1/http2"))]


def test_a_name_with_tls_passed_through_has_neither_scope_nor_clusters() -> None:
    passthrough_plan = NamePlan(NAME, A, site=Site(NAME, worlds.tunnel(name=NAME, proto="tls"), ""))
    assert scopes.build_scope(passthrough_plan) is None
    assert scopes.build_clusters(passthrough_plan, Records(), "PEM", SETTINGS) == ()


def test_no_server_name_is_as_long_as_a_reserved_secret() -> None:
    assert [len(secret) for secret in (LINK_SECRET, OPERATOR_SECRET)] == [256, 256]
