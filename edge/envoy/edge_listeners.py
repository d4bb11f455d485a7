"""Builds the listeners of edges: internal listeners of special edges, and listeners of TCP ports.

A special edge has names that Envoy must know before a visitor comes. A handshake requirement is an edge's TLS version,
or a digest if the edge demands client certificates or OAuth. This file does no I/O.
"""

from chalicelib.model.serving.edge_plans import Plan, listener_name
from edge.envoy import listeners, stream_filters, v3
from edge.envoy.filters import policy_matchers, sign_in
from edge.envoy.names import managers, scopes, tls_contexts
from edge.envoy.resources import Resource
from edge.process.settings import Settings


def build_upstream_listener(plan: Plan, settings: Settings) -> Resource:
    """Return the internal listener of an edge that passes TLS through to its upstream."""
    chain = v3.FilterChain(filters=stream_filters.build_edge_filters(plan, settings))
    matcher = policy_matchers.build_address_matcher(plan.refusals)
    return listeners.build_stream_listener(listener_name(plan.edge.id, ""), chain, matcher)


def build_on_demand_listener(plan: Plan, settings: Settings) -> Resource:
    """Return the listener of an edge with mutual TLS or OAuth, or of a TLS edge.

    Envoy requests the certificates of this listener on demand. The name of the listener contains the handshake
    requirement. So after a change of the requirement, the earlier listener stays until Envoy accepts the new one.
    """
    name, version = on_demand_listener_name(plan), tls_contexts.version_of(plan)
    if plan.is_stream:
        socket = tls_contexts.build_socket(version, plan.trusted)
        filters = stream_filters.build_edge_filters(plan, settings)
        chain = listeners.build_tls_chain("https", socket, filters, settings)
        return listeners.build_stream_listener(name, chain, policy_matchers.build_address_matcher(plan.refusals))
    socket = tls_contexts.build_socket(version, plan.trusted, listeners.HTTP_PROTOCOLS)
    client = managers.CLIENT_CERTIFICATE if plan.trusted else ()
    guards = sign_in.build_filters(plan, settings)
    manager = managers.build_names_manager(settings, scopes.handshake_requirement(plan), client, guards)
    filters = [stream_filters.build_edge_limit(settings), manager]
    return listeners.build_named_listener(name, listeners.build_tls_chain("https", socket, filters, settings))


def find_name(plan: Plan) -> str:
    """Return the name of a special edge's listener."""
    is_upstream = plan.edge.terminate_at == "upstream"
    return listener_name(plan.edge.id, "") if is_upstream else on_demand_listener_name(plan)


def on_demand_listener_name(plan: Plan) -> str:
    """Return the name of an edge's listener that requests certificates on demand."""
    return f"edge/{plan.edge.id}/{plan.digest}"


def build_edge_port_listener(plan: Plan, port: str, settings: Settings) -> Resource:
    """Return a TCP edge's listener for one of its ports."""
    filters = stream_filters.build_edge_filters(plan, settings)
    matcher = policy_matchers.build_port_matcher(plan, int(port), settings.region)
    return listeners.build_port_listener(port, filters, settings, matcher)
