"""Envoy's internal listeners of special edges: mutual TLS, TLS edges, and TLS that ends upstream. Pure.

Each edge has its own, so an authority that Envoy rejects closes only its owner's names. Certificates are on demand.
"""

from collections.abc import Mapping

from edge.envoy import edge_routes, listeners, selector, stream_filters
from edge.envoy.names import managers, scopes, tls_contexts
from edge.envoy.resources import Json, Resource
from edge.plan.edges import Plan, listener_name
from edge.process.settings import Settings

_ON_DEMAND = "on-demand"  # in place of a certificate in the name of a listener


def special_listener_name(plan: Plan) -> str:
    """Return the name of the listener of a special edge."""
    return listener_name(plan.edge.id, "" if plan.edge.terminate_at == "upstream" else _ON_DEMAND)


def has_own_listener(plan: Plan) -> bool:
    """Return whether an edge has a listener of its own. Another TLS version needs only a shared filter chain."""
    return plan.is_stream or bool(plan.trusted)


def build_special_listener(plan: Plan, settings: Settings) -> Resource:
    """Return the listener of a special edge, for all its names."""
    name, words = special_listener_name(plan), (plan.edge.id, plan.digest, plan.edge.account, *plan.trusted)
    filters = stream_filters.build_edge_filters(plan, settings) if plan.is_stream else _http_filters(plan, settings)
    chain: Mapping[str, Json] = {"filters": filters}
    if plan.edge.terminate_at != "upstream":
        chain = listeners.build_tls_chain(_build_context(plan), filters, settings)
    build = listeners.build_stream_listener if plan.is_stream else listeners.build_inspecting_listener
    return build(name, chain, *words)


def _http_filters(plan: Plan, settings: Settings) -> list[Json]:
    manager = managers.build_names_manager(settings, scopes.handshake_requirement(plan), edge_routes.CLIENT)
    return [stream_filters.build_connection_limit(settings), manager]


def _build_context(plan: Plan) -> dict[str, Json]:
    """Return the TLS context of an edge. Envoy requires that session resumption is off."""
    common: dict[str, Json] = {
        "tls_params": tls_contexts.build_params(tls_contexts.version_of(plan), plan.trusted),
        "custom_tls_certificate_selector": selector.build_selector(),
        **({} if plan.is_stream else {"alpn_protocols": listeners.HTTP_PROTOCOLS}),
    }
    context = (
        tls_contexts.require_client(common, plan.trusted) if plan.trusted else {"common_tls_context": dict(common)}
    )
    return {**context, "disable_stateless_session_resumption": True, "disable_stateful_session_resumption": True}
