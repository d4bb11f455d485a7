"""Small parts of Envoy's configuration that the others are put together from. Pure."""

from collections.abc import Mapping

from edge.link import sockets
from edge.process.settings import Limits
from edge.traffic.resources import Json

TYPE = "type.googleapis.com/envoy"
NETWORK = f"{TYPE}.extensions.filters.network"
WINDOWS: Mapping[str, Json] = {"initial_stream_window_size": 1 << 20, "initial_connection_window_size": 4 << 20}
ADS: Json = {"ads": {}, "resource_api_version": "V3"}  # where Envoy finds what is named elsewhere


def typed(name: str, kind: str, **config: Json) -> Json:
    """Return an extension of Envoy with its configuration, whose type is `kind`."""
    return {"name": name, "typed_config": {"@type": kind, **config}}


def cluster(name: str, address: Json) -> dict[str, Json]:
    """Return an upstream of one address."""
    return upstream(name, [{"endpoint": {"address": address}}])


def upstream(name: str, endpoints: list[Json]) -> dict[str, Json]:
    """Return an upstream of some endpoints, each asked in its turn."""
    return {
        "name": name,
        "type": "STATIC",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
    }


def listener(name: str, host: str, port: int, limits: Limits) -> dict[str, Json]:
    """Return where connections come in."""
    return {
        "name": name,
        "address": {"socket_address": {"address": host, "port_value": port}},
        "listener_filters_timeout": "15s",
        "socket_options": socket_options(limits),
    }


def socket_options(limits: Limits) -> Json:
    """Return how much the system keeps for a connection."""
    options = sockets.options(limits.max_socket_kib << 10)
    return [
        {"level": level, "name": name, "int_value": value, "state": "STATE_PREBIND"}
        for (level, name), value in options.items()
    ]


def secret(name: str) -> Json:
    """Return where a certificate and its key are found."""
    return {"name": name, "sds_config": ADS}
