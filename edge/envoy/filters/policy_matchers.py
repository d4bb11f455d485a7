"""Converts traffic policies to matchers of a port's listener, which decide when a connection opens.

A filter would decide only at the client's first byte. Until then, an upstream that sends first could send data to a
refused client. The matchers are not nested in each other, since Envoy parses messages only to a depth of 100. This file
does no I/O.
"""

from functools import lru_cache

from chalicelib.model.edges import traffic_policies as documents
from chalicelib.model.edges.modules import traffic_policy
from chalicelib.model.edges.policy_expressions import AnyOf, Condition
from chalicelib.model.serving.edge_plans import Plan
from edge.envoy import matchers, v3
from edge.envoy.filters import blocking
from edge.envoy.matchers import REFUSED, OnMatch
from edge.plan import traffic_policies

_CHAINS = {True: blocking.CHAIN, False: REFUSED}


def build_address_matcher(refusals: tuple[Condition, ...]) -> v3.Matcher:
    """Return the matcher that refuses clients by their address, for ports without a traffic policy."""
    return build_matcher(refusals, 0, "") if refusals else blocking.MATCHER


def build_port_matcher(plan: Plan, port: int, region: str) -> v3.Matcher:
    """Return the matcher that admits the clients of a TCP edge at one of its ports. Raises UnsupportedPolicy.

    The error is not expected, because an edge with an unsupported traffic policy gets no port.
    """
    policy = plan.edge.modules.get(traffic_policy.MODULE)
    refusals = (*plan.refusals, *([parse_document(policy.value)] if policy else []))
    return build_matcher(refusals, port, region) if refusals else blocking.MATCHER


parse_document = lru_cache(256)(documents.parse)


@lru_cache(256)
def build_matcher(refusals: tuple[Condition, ...], port: int, region: str) -> v3.Matcher:
    """Return the matcher that refuses clients for which a condition in `refusals` is true.

    This matcher is the `on_no_match` of an outer matcher. Another part of the listener adds the blocked networks to the
    outer matcher, so Envoy checks the blocked networks first.
    """
    clients = v3.Matcher(on_no_match=matchers.choose(REFUSED))
    for verdict in traffic_policies.decide(AnyOf(refusals), port, region):
        clients.matcher_list.matchers.add(
            predicate=matchers.comes_from(map(str, verdict.networks), "policy"),
            on_match=matchers.choose(_CHAINS[verdict.is_admitted]),
        )
    return v3.Matcher(on_no_match=OnMatch(matcher=clients))
