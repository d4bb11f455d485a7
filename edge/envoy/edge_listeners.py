"""Envoy's listeners of edges: an internal one for each certificate of an edge, and TCP ports. Pure."""

from chalicelib.model.serving.edge_plans import Plan, listener_name
from edge.envoy import edge_routes, listeners, stream_filters
from edge.envoy.filters import blocking, policy_matchers
from edge.envoy.names import https_listener, managers, scopes, tls_contexts
from edge.envoy.resources import Json, Resource
from edge.process.settings import Settings


def build_upstream_listener(plan: Plan, settings: Settings) -> Resource:
    """Return the listener of an edge with TLS that ends upstream."""
    name, filters = listener_name(plan.edge.id, ""), stream_filters.build_edge_filters(plan, settings)
    return listeners.build_stream_listener(name, {"filters": filters}, plan.edge.id, plan.digest, plan.edge.account)


def build_on_demand_listener(plan: Plan, settings: Settings) -> Resource:
    """Return the listener of an edge with mutual TLS or of a TLS edge, which requests certificates on demand.

    It differs for each set of requirements on handshakes, so an earlier one stays until the new one is accepted.
    """
    is_http, version = not plan.is_stream, tls_contexts.version_of(plan)
    alpn: dict[str, Json] = {"alpn_protocols": listeners.HTTP_PROTOCOLS} if is_http else {}
    context = https_listener.build_on_demand_context(version, plan.trusted, **alpn)
    requirement = scopes.handshake_requirement(plan)
    client = edge_routes.CLIENT if plan.trusted else {}
    http = [
        stream_filters.build_connection_limit(settings),
        managers.build_names_manager(settings, requirement, client),
    ]
    filters = http if is_http else stream_filters.build_edge_filters(plan, settings)
    build = listeners.build_named_listener if is_http else listeners.build_stream_listener
    chain = listeners.build_tls_chain(context, filters, settings)
    return build(on_demand_listener_name(plan), chain, plan.edge.id, plan.digest, plan.edge.account, *plan.trusted)


def find_name(plan: Plan) -> str:
    """Return the name of the listener of a special edge."""
    is_upstream = plan.edge.terminate_at == "upstream"
    return listener_name(plan.edge.id, "") if is_upstream else on_demand_listener_name(plan)


def on_demand_listener_name(plan: Plan) -> str:
    """Return the name of an edge's listener that requests certificates on demand."""
    return f"edge/{plan.edge.id}/{plan.digest}"


def build_edge_port_listener(plan: Plan, port: str, settings: Settings) -> Resource:
    """Return the listener of a TCP edge at one of its ports."""
    filters, policy = stream_filters.build_edge_filters(plan, settings), plan.edge.modules.traffic_policy
    matcher = policy_matchers.build_matcher(policy.value, int(port), settings.region) if policy else blocking.MATCHER
    return listeners.build_port_listener(port, filters, settings, plan.edge.id, plan.edge.account, matcher=matcher)
