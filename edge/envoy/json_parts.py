"""Small parts of Envoy's configuration. Pure."""

import ipaddress
import socket
from collections.abc import Iterable, Mapping

from edge.envoy.resources import Json
from edge.link import sockets
from edge.process.settings import Limits

TYPE = "type.googleapis.com/envoy"
_GOOGLE = "type.googleapis.com/google.protobuf"
NETWORK = f"{TYPE}.extensions.filters.network"
WINDOWS: Mapping[str, Json] = {"initial_stream_window_size": 1 << 20, "initial_connection_window_size": 4 << 20}
_BACKLOG = 4096  # connections that wait to be accepted
_MAX_SERVER_NAME = 255  # bytes
ADS: Json = {"ads": {}, "resource_api_version": "V3"}  # the source of resources that are referenced by name


def extension(name: str, kind: str, **config: Json) -> Json:
    """Return an extension of Envoy. `kind` is the type of its configuration."""
    return {"name": name, "typed_config": {"@type": kind, **config}}


def cluster(name: str, address: Json) -> dict[str, Json]:
    """Return a cluster with one address."""
    return upstream(name, [{"endpoint": {"address": address}}])


def upstream(name: str, endpoints: list[Json]) -> dict[str, Json]:
    """Return a cluster with several endpoints, used round robin."""
    return {
        "name": name,
        "type": "STATIC",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
    }


def listener(name: str, host: str, port: int, limits: Limits) -> dict[str, Json]:
    """Return the base of a public listener."""
    return {
        "name": name,
        "stat_prefix": name,
        "address": {"socket_address": {"address": host, "port_value": port}},
        "listener_filters_timeout": f"{limits.header_timeout}s",
        "tcp_backlog_size": _BACKLOG,
        "socket_options": [*socket_options(limits), _deferred_accept(limits)],
    }


def _deferred_accept(limits: Limits) -> Json:
    """Return the socket option that delays a connection until its client sends data."""
    level, name = socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT
    return {"level": level, "name": name, "int_value": limits.header_timeout, "state": "STATE_LISTENING"}


def socket_options(limits: Limits) -> list[Json]:
    """Return the socket options for buffer sizes and keepalive."""
    options = sockets.options(limits.max_socket_kib << 10)
    return [
        {"level": level, "name": name, "int_value": value, "state": "STATE_PREBIND"}
        for (level, name), value in options.items()
    ]


def chain(name: str) -> Json:
    """Return the action that chooses a filter chain. Envoy closes the connection if it does not exist."""
    return extension("chain", f"{_GOOGLE}.StringValue", value=name)


def networks(cidrs: Iterable[str]) -> list[Json]:
    """Return networks as Envoy's address ranges."""
    found = map(ipaddress.ip_network, cidrs)
    return [{"address_prefix": str(it.network_address), "prefix_len": it.prefixlen} for it in found]


def address_in(cidrs: Iterable[str], address: str, name: str) -> Json:
    """Return the predicate that a connection's address is in one of the networks.

    `address` is the name of Envoy's input, such as SourceIPInput.
    """
    matching = f"{TYPE}.extensions.matching"
    within = extension("ip", f"{matching}.input_matchers.ip.v3.Ip", cidr_ranges=networks(cidrs), stat_prefix=name)
    input_ = extension("address", f"{matching}.common_inputs.network.v3.{address}")
    return {"single_predicate": {"input": input_, "custom_match": within}}


def reserved_secret(purpose: str) -> str:
    """Return the name of a secret that no visitor can select. It is longer than any server name.

    Envoy requests the server name as a visitor spells it, with any letters and signs.
    """
    return purpose.ljust(_MAX_SERVER_NAME + 1, "/")


def secret(name: str) -> Json:
    """Return the reference to a certificate with its key."""
    return {"name": name, "sds_config": ADS}
