"""Builds Envoy's listeners at public ports, and internal listeners for special names. This file does no I/O.

Special names are names that Envoy must know before a visitor comes. The public HTTPS listener passes connections for
some of them, for example with TLS passthrough, to internal listeners. Envoy accepts or rejects a listener as a whole,
so a bad internal listener affects no other names.
"""

import socket
from collections.abc import Iterable
from functools import cache

from chalicelib.model.edges.policy_expressions import Condition
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy import http_manager, parts, stream_filters, v3
from edge.envoy.filters import blocking, policy_matchers, proxies
from edge.envoy.resources import PORT_PREFIX, Resource, encode
from edge.process.settings import Settings

FRONT = "https"  # the name of the public HTTPS listener
HTTP_PROTOCOLS = ("h2", "http/1.1")
# Reads the server name and the protocols of a handshake.
TLS_INSPECTOR = v3.ListenerFilter(
    name="envoy.filters.listener.tls_inspector", typed_config=parts.pack(v3.TlsInspector())
)
_BACKLOG = 4096  # connections that wait in the kernel to be accepted
_INTERNAL = v3.Listener(
    # All internal listeners share counters, because creating counters takes longer than all other work on a listener.
    stat_prefix="certificate",
    internal_listener=v3.Listener.InternalListenerConfig(),
    listener_filters=[proxies.PROXY_PROTOCOL, TLS_INSPECTOR],
)


def build_public_listener(name: str, port: int, settings: Settings) -> v3.Listener:
    """Return a public listener without filter chains.

    Envoy receives a connection only when the client's first data has arrived. Until then, the connection waits in the
    kernel.
    """
    limits = settings.limits
    deferred = v3.SocketOption(
        level=socket.IPPROTO_TCP,
        name=socket.TCP_DEFER_ACCEPT,
        int_value=limits.header_timeout,
        state=v3.SocketOption.STATE_LISTENING,
    )
    return v3.Listener(
        name=name,
        stat_prefix=name,
        traffic_direction=v3.INBOUND,
        address=parts.address(settings.host, port),
        listener_filters_timeout=parts.seconds(limits.header_timeout),
        tcp_backlog_size=parts.number(_BACKLOG),
        socket_options=[*parts.socket_options(limits), deferred],
        listener_filters=proxies.build_filters(settings),
    )


def build_http_listener(settings: Settings) -> Resource:
    """Return the public listener without TLS, which redirects requests to https."""
    listener = build_public_listener("http", settings.http_port, settings)
    listener.filter_chains.add(
        filters=[http_manager.build_redirect_manager(settings)], filter_chain_match=proxies.build_match(settings)
    )
    return encode(listener)


def build_port_listener(
    port: str, filters: Iterable[v3.Filter], settings: Settings, matcher: v3.Matcher = blocking.MATCHER
) -> Resource:
    """Return the listener of a TCP port. `filters` limit its connections.

    The listener refuses connections from blocked networks. If proxies are configured, it also refuses connections that
    do not come from them. For all other connections, `matcher` chooses the filter chain.
    """
    listener = parts.copy(_port_template(settings))
    listener.name, listener.address.socket_address.port_value = port_name(port), int(port)
    listener.filter_chains[0].filters.extend(filters)
    listener.filter_chain_matcher.CopyFrom(proxies.guard_matcher(matcher, settings))
    return encode(listener)


@cache
def _port_template(settings: Settings) -> v3.Listener:
    """Return a template for the listeners of TCP ports.

    A connection without data is accepted at once, because clients of some protocols (SSH) can wait for the server's
    first byte. A host can run two instances of Envoy, and both can open the same ports.
    """
    return v3.Listener(
        stat_prefix="port",
        traffic_direction=v3.INBOUND,
        address=parts.address(settings.host, 0),
        listener_filters_timeout=parts.seconds(settings.limits.header_timeout),
        tcp_backlog_size=parts.number(_BACKLOG),
        socket_options=parts.socket_options(settings.limits),
        ignore_global_conn_limit=True,  # the global limit is only for the public HTTP and HTTPS listeners
        listener_filters=proxies.build_filters(settings),
        filter_chains=[v3.FilterChain(name=blocking.CHAIN)],
    )


def build_tunnel_port_listener(
    tunnel: ServedTunnel, port: str, settings: Settings, refusals: tuple[Condition, ...] = ()
) -> Resource:
    """Return the listener of a tunnel's TCP port. The conditions in `refusals` refuse visitors by their address."""
    filters = stream_filters.build_tunnel_filters(tunnel, settings)
    return build_port_listener(port, filters, settings, policy_matchers.build_address_matcher(refusals))


def build_tunnel_listener(tunnel: ServedTunnel, settings: Settings, refusals: tuple[Condition, ...] = ()) -> Resource:
    """Return the internal listener of a tunnel with TLS passthrough.

    The conditions in `refusals` refuse visitors by their address.
    """
    chain = v3.FilterChain(filters=stream_filters.build_tunnel_filters(tunnel, settings))
    return build_stream_listener(tunnel_name(tunnel.id), chain, policy_matchers.build_address_matcher(refusals))


def tunnel_name(tunnel: str) -> str:
    """Return the name of the internal listener for a tunnel with TLS passthrough."""
    return f"tunnel/{tunnel}"


def port_name(port: str) -> str:
    """Return the name of a TCP port's listener."""
    return f"{PORT_PREFIX}{port}"


def build_named_listener(name: str, chain: v3.FilterChain) -> Resource:
    """Return an internal listener that reads the server name of the handshake."""
    listener = parts.copy(_INTERNAL)
    listener.name = name
    listener.filter_chains.append(chain)
    return encode(listener)


def build_stream_listener(name: str, chain: v3.FilterChain, matcher: v3.Matcher = blocking.MATCHER) -> Resource:
    """Return an internal listener for byte connections, which refuses blocked networks.

    `matcher` chooses the filter chain of connections from other networks.
    """
    listener = parts.copy(_INTERNAL)
    listener.name, chain.name = name, blocking.CHAIN
    listener.filter_chains.append(chain)
    listener.filter_chain_matcher.CopyFrom(matcher)
    return encode(listener)


def build_secret(name: str, chain: str, private_key: str) -> Resource:
    """Return the secret with a certificate chain and its private key, both in PEM."""
    secret = v3.Secret(name=name)
    secret.tls_certificate.certificate_chain.inline_string = chain
    secret.tls_certificate.private_key.inline_string = private_key
    return encode(secret)


def build_tls_chain(
    name: str, socket: v3.TransportSocket, filters: Iterable[v3.Filter], settings: Settings
) -> v3.FilterChain:
    """Return a filter chain that terminates TLS."""
    return v3.FilterChain(
        name=name,
        transport_socket=socket,
        transport_socket_connect_timeout=parts.seconds(settings.limits.header_timeout),
        filters=filters,
    )
