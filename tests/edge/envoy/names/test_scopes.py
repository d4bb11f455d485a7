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
    edge = worlds.edge(TARGET.route, hosts=[it.name for it in HOSTS], **more)
    trusted = ("PEM",) if edge.modules.values.get("mutual_tls") else ()
    return NamePlan(NAME, A, "cert_1", edge=Plan(edge, HOSTS, trusted=trusted, targets=(TARGET,)))


def tunnel(*, proxy_protocol: bool = False) -> NamePlan:
    served = replace(worlds.tunnel(name=NAME), proxy_protocol=proxy_protocol)
    return NamePlan(NAME, A, OPERATOR, site=Site(NAME, served, OPERATOR))


def test_a_scope_has_the_hosts_that_share_the_certificate() -> None:
    scope = scopes.build_scope(plan())
    assert scope
    body = messages.decode(scope)
    assert (scope.key, body["key"]) == (Key("scope", NAME), {"fragments": [{"string_key": NAME}]})
    hosts = body["route_configuration"]["virtual_hosts"]
    assert [it["domains"] for it in hosts] == [[NAME, "b.example.com"], ["*"]]
    assert hosts[-1]["routes"][0]["direct_response"]["status"] == 421


def test_only_the_hosts_of_an_edge_with_oauth_ask_the_service() -> None:
    """A browser sends requests for all names of a certificate on one connection, which has the filters of one edge."""
    rule = SignInRule("google", "digest", A, "edghts_1", TARGET.route.id)
    route = replace(TARGET.route, modules=extended(TARGET.route.modules, oauth=rule))
    guarded = Plan(worlds.edge(route, hosts=[NAME]), HOSTS, targets=(replace(TARGET, route=route, rule=rule),))
    for scope in (scopes.build_scope(NamePlan(NAME, A, "cert_1", edge=guarded)), scopes.build_closed_scope(NAME)):
        assert scope
        (*_, others) = messages.decode(scope)["route_configuration"]["virtual_hosts"]
        assert others["domains"] == ["*"]
        assert others["typed_per_filter_config"]["sign-in"]["disabled"] is True
    unguarded = scopes.build_scope(plan())
    assert unguarded
    hosts = messages.decode(unguarded)["route_configuration"]["virtual_hosts"]
    assert not any("typed_per_filter_config" in it for it in hosts)


@pytest.mark.parametrize(
    ("made", "prefix"),
    [(plan(), ""), (plan(version="1.2"), ""), (plan(version="1.3"), "1.3/"), (tunnel(), "")],
)
def test_a_scope_is_named_after_the_requirements_on_handshakes(made: NamePlan, prefix: str) -> None:
    assert scopes.scope_name(made) == f"{prefix}{NAME}"


def test_a_scope_behind_mutual_tls_changes_its_name_with_the_authorities() -> None:
    made = plan(authorities=["ca_1"])
    assert made.edge
    other = replace(made, edge=replace(made.edge, trusted=("OTHER",)))
    names = {scopes.scope_name(it) for it in (plan(), made, other)}
    assert len(names) == 3
    assert {it.rpartition("/")[2] for it in names} == {NAME}


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (tunnel(), ["gw-1", "gw-1/http2"]),
        (tunnel(proxy_protocol=True), ["gw-1/proxied", "gw-1/proxied/http2"]),
        (plan(), ["answer/bkdhr_1", "answer/bkdhr_1", "group/bkdtg_1", "group/bkdtg_1/http2"]),
    ],
)
def test_a_name_needs_only_the_clusters_of_its_routes(made: NamePlan, expected: list[str]) -> None:
    found = scopes.build_clusters(made, Records(), "PEM", SETTINGS)
    assert [it.key.name for it in found] == expected


class NoTunnels(Records):
    """The same records, but the group has no tunnels."""

    def members(self, group: object) -> Sequence[tuple[ServedTunnel, Gateway]]:
        return []


@pytest.mark.parametrize(("records", "expected"), [(Records(), []), (NoTunnels(), ["group/bkdtg_1"])])
def test_only_clusters_of_groups_without_tunnels_are_marked_as_emptied(records: Records, expected: list[str]) -> None:
    found = scopes.build_clusters(plan(), records, "PEM", SETTINGS)
    assert [it.key.name for it in found if it.is_emptied] == [name for it in expected for name in (it, f"{it}/http2")]


def test_a_route_with_a_circuit_breaker_has_clusters_for_its_groups_only() -> None:
    breaker = CircuitBreakerModule(tripped_duration=30, rolling_window=5, volume_threshold=20, error_percent=20)
    modules = extended(TARGET.route.modules, circuit_breaker=breaker)
    target = replace(TARGET, route=replace(TARGET.route, modules=modules))
    made = plan()
    assert made.edge
    made = replace(made, edge=replace(made.edge, targets=(target,)))
    found = [it.key.name for it in scopes.build_clusters(made, Records(), "PEM", SETTINGS)]
    shared = [it.key.name for it in scopes.build_clusters(plan(), Records(), "PEM", SETTINGS)]
    id = target.route.id
    assert found == [*shared, *(f"circuit/{id}/{it}" for it in ("group/bkdtg_1", "group/bkdtg_1/http2"))]


def test_a_name_with_tls_passed_through_has_neither_scope_nor_clusters() -> None:
    passed = NamePlan(NAME, A, site=Site(NAME, worlds.tunnel(name=NAME, proto="tls"), ""))
    assert scopes.build_scope(passed) is None
    assert scopes.build_clusters(passed, Records(), "PEM", SETTINGS) == ()


def test_no_server_name_is_as_long_as_a_reserved_secret() -> None:
    assert [len(it) for it in (LINK_SECRET, OPERATOR_SECRET)] == [256, 256]
