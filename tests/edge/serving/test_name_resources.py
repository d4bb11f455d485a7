"""The resources of a name: those that its plan needs, and no others."""

import pytest

from chalicelib.model.serving.account_view import AccountView
from chalicelib.model.serving.sites import OPERATOR, Site
from edge.envoy import clusters, listeners
from edge.envoy.names import scopes
from edge.link.authority import KeyPair
from edge.plan.names import NamePlan
from edge.process.settings import Settings
from edge.serving.name_resources import build_certificate_only, build_name_resources
from edge.serving.order import NameResources
from tests.edge.plan import worlds
from tests.edge.plan.worlds import GATEWAY, A

SETTINGS, NAME, PAIR = Settings(), "a.example.com", KeyPair("CHAIN", "KEY")
TUNNEL = worlds.tunnel(name=NAME)
VIEW = AccountView(worlds.records_of(GATEWAY, TUNNEL), worlds.SERVICE)


@pytest.mark.parametrize("pair", [PAIR, None])
def test_a_tunnel_has_its_gateway_its_scope_and_perhaps_a_secret(pair: KeyPair | None) -> None:
    plan = NamePlan(NAME, A, OPERATOR, site=Site(NAME, TUNNEL, OPERATOR))
    assert build_name_resources(plan, pair, VIEW, "PEM", SETTINGS) == NameResources(
        NAME,
        tuple(clusters.build_gateway_clusters(GATEWAY, "PEM", SETTINGS)),
        scopes.build_scope(plan),
        listeners.build_secret(NAME, "CHAIN", "KEY") if pair else None,
    )


def test_an_unknown_name_has_only_a_secret() -> None:
    secret = listeners.build_secret("A.example.com", "CHAIN", "KEY")
    assert build_certificate_only("A.example.com", PAIR) == NameResources("A.example.com", (), None, secret)
    plan = NamePlan(NAME, A, OPERATOR)
    resources = build_name_resources(plan, PAIR, VIEW, "PEM", SETTINGS)
    assert (resources.clusters, resources.scope) == ((), None)


def test_an_edge_has_its_scope_and_secret_too() -> None:
    records = (worlds.GATEWAY, worlds.tunnel(), worlds.group(), worlds.edge(worlds.route()))
    edge_plan = worlds.plan_of(worlds.EDGE, *records)
    plan = NamePlan(worlds.HOST, A, OPERATOR, edge=edge_plan)
    view = AccountView(worlds.records_of(*records), worlds.SERVICE)
    resources = build_name_resources(plan, PAIR, view, "PEM", SETTINGS)
    assert resources.secret == listeners.build_secret(worlds.HOST, "CHAIN", "KEY")
    assert resources.scope == scopes.build_scope(plan)
    assert resources.clusters == scopes.build_clusters(plan, view, "PEM", SETTINGS)
