"""Builds Envoy's public HTTPS listener, which requests certificates on demand. This file does no I/O.

Special names are names that Envoy must know before a visitor comes, for example because of another TLS version. The
listener's matcher has a part for each of them. All other names use the filter chain of the default TLS version.
"""

import re

from edge.envoy import listeners, matchers, parts, routes, stream_filters, v3
from edge.envoy.filters import proxies
from edge.envoy.matchers import OnMatch
from edge.envoy.names import challenges, managers, tls_contexts
from edge.envoy.names.tls_contexts import DEFAULT_VERSION
from edge.envoy.resources import NAME_PREFIX, Key, Resource, encode, encode_part
from edge.process.settings import Settings

INTERNAL = "passed-on"  # the filter chain for names (not wildcards) that have an internal listener
_NO_NAME = " "  # matches no client, because no server name contains a space
# Makes Envoy's tcp_proxy use the cluster with the name NAME_PREFIX + the server name.
_NAME_TO_CLUSTER = v3.NetworkFilterState(
    on_new_connection=[
        v3.FilterStateValue(
            object_key="envoy.tcp_proxy.cluster",
            format_string=parts.format_string(f"{NAME_PREFIX}%REQUESTED_SERVER_NAME%"),
        )
    ]
)


def build_public(settings: Settings) -> tuple[Resource, ...]:
    """Return the public listeners, and the resources that they need. None of these depends on names."""
    http = routes.build_all_redirects(settings), challenges.build_cluster(settings)
    return listeners.build_http_listener(settings), build_https_listener(settings), *http


def build_https_listener(settings: Settings) -> Resource:
    """Return the public HTTPS listener without the matcher parts of special names."""
    to_internal = [_front_limit(settings), stream_filters.build_filter_state(_NAME_TO_CLUSTER), _cluster_proxy("none")]
    listener = listeners.build_public_listener(listeners.FRONT, settings.edge_port, settings)
    listener.listener_filters.append(listeners.TLS_INSPECTOR)
    listener.filter_chains.add(name=INTERNAL, filters=to_internal)
    listener.filter_chains.extend(_build_chain(version, settings) for version in tls_contexts.VERSIONS)
    matcher = proxies.guard_matcher(_base_matcher(), settings, proxies.choose_trial_source(settings))
    listener.filter_chain_matcher.CopyFrom(matcher)
    return encode(listener)


def build_special_part(name: str, chain: str, settings: Settings) -> Resource:
    """Return the matcher part that chooses the filter chain for a name.

    `chain` is a TLS version, or INTERNAL for the internal listener behind the cluster `name/<name>`. If a wildcard is
    special, but a name below the wildcard is not, the name needs a matcher part with DEFAULT_VERSION.
    """
    return _build_part(name, chain, matchers.choose(_chain_name(name, chain)), settings)


def build_unreserved_special_part(name: str, chain: str, settings: Settings) -> Resource:
    """Return the matcher part for a special name that is not reserved. The part also refuses TLS-ALPN-01 challenges."""
    return _build_part(name, chain, matchers.refuse_challenges(_chain_name(name, chain)), settings)


def _build_chain(version: str, settings: Settings) -> v3.FilterChain:
    manager = managers.build_names_manager(settings, tls_contexts.requirement_of(version))
    socket = tls_contexts.build_socket(version, protocols=listeners.HTTP_PROTOCOLS)
    return listeners.build_tls_chain(version, socket, [_front_limit(settings), manager], settings)


def _front_limit(settings: Settings) -> v3.Filter:
    """Return the filter that limits open connections. The limit leaves room for `max_handshakes` new connections."""
    return stream_filters.build_connection_limit(listeners.FRONT, settings.limits.max_connections)


def _cluster_proxy(cluster: str) -> v3.Filter:
    """Return the filter that passes bytes to an internal listener.

    The filter has no idle timeout, because the internal listener has one.
    """
    proxy = v3.TcpProxy(stat_prefix="front", cluster=cluster, idle_timeout=parts.seconds(0))
    return v3.Filter(name="envoy.filters.network.tcp_proxy", typed_config=parts.pack(proxy))


def _chain_name(name: str, chain: str) -> str:
    """Return the name of the filter chain for a name. Each wildcard with an internal listener has its own chain."""
    return name if chain == INTERNAL and name.startswith("*.") else chain


def _build_part(name: str, chain: str, on_match: OnMatch, settings: Settings) -> Resource:
    part = v3.Listener()
    if not name.startswith("*."):
        matcher = matchers.match_server_name(name, on_match)
    else:
        regex = f"[^.]+{re.escape(name.removeprefix('*'))}"
        matcher = v3.Matcher(on_no_match=OnMatch(matcher=matchers.match_server_names(regex, on_match)))
        if chain == INTERNAL:
            part.filter_chains.add(name=name, filters=[_cluster_proxy(NAME_PREFIX + name)])
    part.filter_chain_matcher.CopyFrom(proxies.guard_part(matcher, settings))
    return encode_part(Key("listener", listeners.FRONT, name), part)


def _base_matcher() -> v3.Matcher:
    """Return the matcher without special names.

    Envoy requires an entry in each list of a matcher, so each list has an entry that no client matches. TLS-ALPN-01
    challenges are refused, because no upstream can answer them behind a certificate of the edge.
    """
    internal = matchers.choose(INTERNAL)
    by_wildcard = matchers.match_server_names(_NO_NAME, internal, matchers.refuse_challenges(DEFAULT_VERSION))
    matcher = matchers.match_server_name("", internal)
    matcher.on_no_match.matcher.CopyFrom(by_wildcard)
    return matcher
