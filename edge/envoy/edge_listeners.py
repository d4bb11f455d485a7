"""Envoy's listeners of edges: an internal one for each certificate of an edge, and TCP ports. Pure."""

from collections.abc import Mapping

from chalicelib.model.serving.edge_plans import Plan, listener_name
from edge.envoy import edge_routes, listeners, stream_filters
from edge.envoy.names import https_listener, managers, scopes, tls_contexts
from edge.envoy.resources import Json, Resource
from edge.plan.world import OPERATOR
from edge.process.settings import Settings


def build_edge_listener(plan: Plan, certificate: str, settings: Settings) -> Resource:
    """Return the listener of an edge for a certificate. Routes are separate, so it survives their changes."""
    name, is_http = listener_name(plan.edge.id, certificate), not plan.is_stream
    http = (
        [stream_filters.build_connection_limit(settings), edge_routes.build_edge_manager(plan, settings)]
        if is_http
        else []
    )
    filters = http or stream_filters.build_edge_filters(plan, settings)
    own = () if certificate in ("", OPERATOR) else (certificate,)  # other resources contain these words too
    words = (plan.edge.id, plan.digest, plan.edge.account, *own, *plan.trusted)
    chain = (
        listeners.build_tls_chain(_context(plan, certificate), filters, settings)
        if certificate
        else {"filters": filters}
    )
    return (listeners.build_stream_listener if plan.is_stream else listeners.build_internal_listener)(
        name, chain, *words
    )


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


def on_demand_listener_name(plan: Plan) -> str:
    """Return the name of an edge's listener that requests certificates on demand."""
    return f"edge/{plan.edge.id}/{plan.digest}"


def build_edge_port_listener(plan: Plan, port: str, settings: Settings) -> Resource:
    """Return the listener of a TCP edge at one of its ports."""
    filters = stream_filters.build_edge_filters(plan, settings)
    return listeners.build_port_listener(port, filters, settings, plan.edge.id, plan.edge.account)


def _context(plan: Plan, certificate: str) -> Mapping[str, Json]:
    """Return the requirements on clients in the handshake."""
    make = listeners.build_tls_context if plan.is_stream else listeners.build_http_context
    common = make(certificate, tls_contexts.build_params(tls_contexts.version_of(plan), plan.trusted))
    return tls_contexts.require_client(common, plan.trusted) if plan.trusted else {"common_tls_context": common}
