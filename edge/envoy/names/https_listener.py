"""Envoy's public HTTPS listener, which requests certificates on demand. Pure.

Names with special handshakes have entries in its matcher. All other names use the filter chain of the default version.
"""

import re
from collections.abc import Mapping, Sequence

from edge.envoy import listeners, parts, routes, selector
from edge.envoy.filters import proxies
from edge.envoy.filters.blocking import REFUSED
from edge.envoy.names import managers, tls_contexts
from edge.envoy.names.tls_contexts import DEFAULT_VERSION
from edge.envoy.resources import NAME_PREFIX, Json, Key, Resource
from edge.process.settings import Settings

INTERNAL = "passed-on"  # the filter chain of exact names with a separate listener
_NO_NAME = " "  # never a server name


def build_public(settings: Settings) -> tuple[Resource, ...]:
    """Return the public listeners and routes that do not depend on names."""
    return listeners.build_http_listener(settings), build_https_listener(settings), routes.build_all_redirects(settings)


def build_https_listener(settings: Settings) -> Resource:
    """Return the public HTTPS listener without the parts of special names."""
    to_internal = [
        listeners.build_front_limit(settings),
        listeners.build_name_to_cluster(),
        listeners.build_cluster_proxy("none"),
    ]
    refused, trials = parts.chain(REFUSED), proxies.choose_trial_source(settings)
    body: Json = {
        **parts.listener(listeners.FRONT, settings.host, settings.edge_port, settings.limits),
        "listener_filters": [*proxies.build_filters(settings), listeners.build_tls_inspector()],
        "filter_chains": [
            {"name": INTERNAL, "filters": to_internal},
            *(_build_chain(version, settings) for version in tls_contexts.VERSIONS),
        ],
        "filter_chain_matcher": proxies.guard_matcher(_base_matcher(), refused, settings, trials),
    }
    return Resource(Key("listener", listeners.FRONT), body)


def build_special_part(name: str, chain: str, settings: Settings) -> Resource:
    """Return the part of the public listener that sends a name to a filter chain.

    `chain` is a TLS version, or INTERNAL for the cluster `name/<name>`. A name below a special wildcard that is not
    special itself needs a part with DEFAULT_VERSION.
    """
    return _build_part(name, chain, listeners.choose_chain(_chain_name(name, chain)), settings)


def build_unreserved_special_part(name: str, chain: str, settings: Settings) -> Resource:
    """Return the same for a name that refuses challenges of certificate authorities."""
    return _build_part(name, chain, listeners.refuse_challenges(_chain_name(name, chain)), settings)


def build_on_demand_context(version: str, trusted: Sequence[str] = (), **more: Json) -> dict[str, Json]:
    """Return the TLS context with certificates on demand. `trusted` are authorities of clients, PEM.

    Envoy rejects such a context unless session resumption is off.
    """
    common: dict[str, Json] = {
        "tls_params": tls_contexts.build_params(version, trusted),
        "custom_tls_certificate_selector": selector.build_selector(),
        **more,
    }
    return {
        **(tls_contexts.require_client(common, trusted) if trusted else {"common_tls_context": common}),
        "disable_stateless_session_resumption": True,
        "disable_stateful_session_resumption": True,
    }


def _build_chain(version: str, settings: Settings) -> Json:
    manager = managers.build_names_manager(settings, tls_contexts.requirement_of(version))
    context = build_on_demand_context(version, alpn_protocols=listeners.HTTP_PROTOCOLS)
    chain = listeners.build_tls_chain(context, [listeners.build_front_limit(settings), manager], settings)
    return {**chain, "name": version}


def _chain_name(name: str, chain: str) -> str:
    """Return the name of a filter chain. Each wildcard with an internal listener has a separate one."""
    return name if chain == INTERNAL and name.startswith("*.") else chain


def _build_part(name: str, chain: str, on_match: Json, settings: Settings) -> Resource:
    key = Key("listener", listeners.FRONT, name)
    if not name.startswith("*."):
        return Resource(key, _matcher(listeners.match_server_name({name: on_match}), settings), (name,))
    regex = f"[^.]+{re.escape(name.removeprefix('*'))}"
    body = _matcher({"on_no_match": {"matcher": listeners.match_regex(regex, on_match)}}, settings)
    own: Json = {"name": name, "filters": [listeners.build_cluster_proxy(NAME_PREFIX + name)]}
    return Resource(key, {**body, **({"filter_chains": [own]} if chain == INTERNAL else {})})


def _matcher(matcher: Mapping[str, Json], settings: Settings) -> dict[str, Json]:
    return {"filter_chain_matcher": proxies.guard_part(matcher, settings)}


def _base_matcher() -> Mapping[str, Json]:
    """Return the matcher without special names.

    Envoy requires an entry in each list, so each has one that no client matches. Challenges of certificate authorities
    are refused, since no upstream can answer them behind a certificate of the edge.
    """
    internal = listeners.choose_chain(INTERNAL)
    normal = listeners.refuse_challenges(DEFAULT_VERSION)
    by_wildcard: Json = {**listeners.match_regex(_NO_NAME, internal), "on_no_match": normal}
    return {**listeners.match_server_name({"": internal}), "on_no_match": {"matcher": by_wildcard}}
