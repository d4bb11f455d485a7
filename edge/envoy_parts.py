"""Small parts of Envoy's configuration that the others are put together from. Pure."""

from collections.abc import Mapping
from typing import TypeAlias

from edge import sockets
from edge.settings import Limits

Json: TypeAlias = "Mapping[str, Json] | list[Json] | str | float | bool"

TYPE = "type.googleapis.com/envoy"
NETWORK = f"{TYPE}.extensions.filters.network"


def typed(name: str, kind: str, **config: Json) -> Json:
    """Return an extension of Envoy with its configuration, whose type is `kind`."""
    return {"name": name, "typed_config": {"@type": kind, **config}}


def watched(path: str) -> Json:
    """Return where Envoy finds a file that it reads again whenever another is moved into its place."""
    return {"resource_api_version": "V3", "path_config_source": {"path": path}}


def resources(kind: str, *resources: dict[str, Json]) -> Json:
    """Return what a watched file holds, all of one kind."""
    return {"resources": [{"@type": f"{TYPE}.{kind}", **resource} for resource in resources]}


def cluster(name: str, address: Json) -> dict[str, Json]:
    """Return an upstream of one address."""
    endpoint: Json = {"endpoint": {"address": address}}
    return {
        "name": name,
        "type": "STATIC",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
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


SECRETS: Json = {
    "resource_api_version": "V3",
    "api_config_source": {
        "api_type": "REST",
        "transport_api_version": "V3",
        "cluster_names": ["secrets"],
        "refresh_delay": "5s",  # also until the next try, when control does not answer
        "request_timeout": "5s",
    },
}
