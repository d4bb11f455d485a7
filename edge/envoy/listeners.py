"""Envoy's listeners: the public ports, and an internal one for each uploaded certificate. Pure.

The public HTTPS listener passes each name with a certificate to that certificate's internal listener. Envoy accepts or
rejects a listener as a whole, so a bad certificate affects no other addresses.
"""

from collections.abc import Mapping

from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy import parts, stream_filters
from edge.envoy import routes as http
from edge.envoy.filters import blocking, proxies
from edge.envoy.filters.blocking import REFUSED
from edge.envoy.resources import NAME_PREFIX, PORT_PREFIX, Form, Json, Key, Resource
from edge.process.settings import Settings

FRONT = "https"  # the public listener
HTTP_PROTOCOLS: list[Json] = ["h2", "http/1.1"]
_CLUSTER_KEY = "envoy.tcp_proxy.cluster"  # the filter state from which tcp_proxy takes its cluster
_APPLICATION_PROTOCOLS = f"{parts.TYPE}.extensions.matching.common_inputs.network.v3.ApplicationProtocolInput"
_CHALLENGE = r".*'acme-tls/1'.*"  # TLS-ALPN-01 (RFC 8737), in the quoted list of a client's protocols
_SERVER_NAME = f"{parts.TYPE}.extensions.matching.common_inputs.network.v3.ServerNameInput"


def build_http_listener(settings: Settings) -> Resource:
    """Return the public listener without TLS, which redirects to https."""
    body: Json = {
        **parts.listener("http", settings.host, settings.http_port, settings.limits),
        "listener_filters": proxies.build_filters(settings),
        "filter_chains": [{"filters": [http.build_redirect_manager(settings)], **proxies.build_match(settings)}],
    }
    return Resource(Key("listener", "http"), body)


def build_port_listener(
    port: str, filters: list[Json], settings: Settings, *words: str, matcher: Mapping[str, Json] = blocking.MATCHER
) -> Resource:
    """Return the listener of a TCP port. Its `filters` limit connections; `words` are those of `Resource`.

    `matcher` chooses the chain of connections that are neither blocked nor from an untrusted proxy.

    It accepts clients that wait for the server to speak first, as in SSH.
    """
    name = port_name(port)
    listener: Json = {
        **parts.listener(name, settings.host, int(port), settings.limits),
        "stat_prefix": "port",
        "socket_options": parts.socket_options(settings.limits),
        "ignore_global_conn_limit": True,  # that limit is for HTTPS
        "enable_reuse_port": False,  # or the system would share a port with another process
        "listener_filters": proxies.build_filters(settings),
        "filter_chains": [{"name": blocking.CHAIN, "filters": filters}],
        "filter_chain_matcher": proxies.guard_matcher(matcher, parts.chain(REFUSED), settings),
    }
    return Resource(Key("listener", name), listener, (name, *words))


def build_tunnel_port_listener(tunnel: ServedTunnel, port: str, settings: Settings) -> Resource:
    """Return the listener of a tunnel's TCP port."""
    filters = stream_filters.build_tunnel_filters(tunnel, settings)
    return build_port_listener(port, filters, settings, tunnel.id, tunnel.account, tunnel.gateway)


def build_tunnel_listener(tunnel: ServedTunnel, settings: Settings) -> Resource:
    """Return the internal listener of a tunnel with TLS upstream."""
    words = (tunnel.id, tunnel.account, tunnel.gateway)
    return build_stream_listener(
        tunnel_name(tunnel.id), {"filters": stream_filters.build_tunnel_filters(tunnel, settings)}, *words
    )


def tunnel_name(tunnel: str) -> str:
    """Return the name of the internal listener of a tunnel with TLS upstream."""
    return f"tunnel/{tunnel}"


def port_name(port: str) -> str:
    """Return the name of a TCP port's listener."""
    return f"{PORT_PREFIX}{port}"


def build_named_listener(name: str, chain: Json, *words: str) -> Resource:
    """Return an internal listener that reads the server name."""
    return Resource(Key("listener", name), _internal_listener(name, chain, build_tls_inspector()), words)


def build_stream_listener(name: str, chain: Mapping[str, Json], *words: str) -> Resource:
    """Return an internal listener for byte connections, which refuses blocked networks."""
    listener = _internal_listener(name, {**chain, "name": blocking.CHAIN}, build_tls_inspector())
    return Resource(Key("listener", name), {**listener, "filter_chain_matcher": blocking.MATCHER}, words)


def _internal_listener(name: str, chain: Json, *filters: Json) -> dict[str, Json]:
    return {
        "name": name,
        "stat_prefix": "certificate",  # shared counters: separate ones would take longer to create than all else
        "internal_listener": {},
        "listener_filters": [proxies.build_proxy_protocol(), *filters],
        "filter_chains": [chain],
    }


def build_secret(name: str, chain: str, private_key: str) -> Resource:
    """Return the secret with a certificate chain and private key, PEM."""
    return Resource(Key("secret", name), Form(_secret, (name, chain, private_key)))


def _secret(name: str, chain: str, private_key: str) -> Json:
    pair: Json = {"certificate_chain": {"inline_string": chain}, "private_key": {"inline_string": private_key}}
    return {"name": name, "tls_certificate": pair}


def build_front_limit(settings: Settings) -> Json:
    """Return the filter that reserves `max_handshakes` of the public listener for new connections."""
    return parts.extension(
        "envoy.filters.network.connection_limit",
        f"{parts.NETWORK}.connection_limit.v3.ConnectionLimit",
        stat_prefix=FRONT,
        max_connections=settings.limits.max_connections,
    )


def build_tls_inspector() -> Json:
    """Return the filter that reads a handshake's server name."""
    kind = f"{parts.TYPE}.extensions.filters.listener.tls_inspector.v3.TlsInspector"
    return parts.extension("envoy.filters.listener.tls_inspector", kind)


def build_tls_chain(context: Mapping[str, Json], filters: list[Json], settings: Settings) -> dict[str, Json]:
    """Return a filter chain that ends TLS."""
    kind = f"{parts.TYPE}.extensions.transport_sockets.tls.v3.DownstreamTlsContext"
    return {
        "name": "https",
        "transport_socket": parts.extension("envoy.transport_sockets.tls", kind, **context),
        "transport_socket_connect_timeout": f"{settings.limits.header_timeout}s",
        "filters": filters,
    }


def _matches(regex: str, kind: str = _SERVER_NAME) -> Json:
    value: Json = {"safe_regex": {"google_re2": {}, "regex": regex}}
    name = "server_name" if kind == _SERVER_NAME else "application_protocols"
    return {"single_predicate": {"input": parts.extension(name, kind), "value_match": value}}


def choose_chain(chain: str) -> Json:
    """Return a match that chooses a filter chain."""
    return {"action": parts.chain(chain)}


def refuse_challenges(chain: str) -> Json:
    """Return a match that chooses a chain, but refuses handshakes that offer a challenge's protocol."""
    return {"matcher": {"matcher_list": {"matchers": [_no_challenge()]}, "on_no_match": choose_chain(chain)}}


def _no_challenge() -> Json:
    return {"predicate": _matches(_CHALLENGE, _APPLICATION_PROTOCOLS), "on_match": choose_chain(REFUSED)}


def match_server_name(names: dict[str, Json]) -> dict[str, Json]:
    """Return a matcher by server name, without a match for other names. Changes keep connections open."""
    return {
        "matcher_tree": {"input": parts.extension("server_name", _SERVER_NAME), "exact_match_map": {"map": names}},
    }


def match_regex(regex: str, on_match: Json) -> dict[str, Json]:
    """Return a matcher for server names that an expression matches."""
    return {"matcher_list": {"matchers": [{"predicate": _matches(regex), "on_match": on_match}]}}


def build_name_to_cluster() -> Json:
    """Return the filter that selects the cluster by the server name, with a prefix."""
    value: Json = {
        "object_key": _CLUSTER_KEY,
        "format_string": {"text_format_source": {"inline_string": f"{NAME_PREFIX}%REQUESTED_SERVER_NAME%"}},
    }
    kind = f"{parts.NETWORK}.set_filter_state.v3.Config"
    return parts.extension("envoy.filters.network.set_filter_state", kind, on_new_connection=[value])


def build_cluster_proxy(cluster: str) -> Json:
    """Return the filter that passes bytes to an internal listener's cluster."""
    kind = f"{parts.NETWORK}.tcp_proxy.v3.TcpProxy"
    unbound = {"stat_prefix": "front", "idle_timeout": "0s"}  # the next listener has a timeout
    return parts.extension("envoy.filters.network.tcp_proxy", kind, cluster=cluster, **unbound)
