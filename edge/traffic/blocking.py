"""The refusal of visitors from blocked networks: in resources apart, so that a change of it drains nobody. Pure."""

import ipaddress
from collections.abc import Iterable

from edge.traffic import parts
from edge.traffic.resources import Json, Key, Resource

_NAME = "blocked"
_RBAC = f"{parts.TYPE}.extensions.filters.http.rbac.v3.RBAC"
_CONNECTIONS, _RBAC_OF_CONNECTIONS = "blocked/bytes", f"{parts.NETWORK}.rbac.v3.RBAC"


def http_filter() -> Json:
    """Return the filter that stands first in each HTTP manager of visitors, and asks of each request."""
    return {"name": _NAME, "config_discovery": {"config_source": parts.ADS, "type_urls": [_RBAC]}}


def network_filter() -> Json:
    """Return the filter of connections of bytes, which asks of the first byte that a client sends."""
    return {
        "name": _CONNECTIONS,
        "config_discovery": {"config_source": parts.ADS, "type_urls": [_RBAC_OF_CONNECTIONS]},
    }


def resources(networks: Iterable[str]) -> tuple[Resource, Resource]:
    """Return the rules of the filters: requests from these networks are a 403, also on connections from before.

    A new connection of bytes ends when its client sends something; one that was open before stays.
    """
    ranges = [ipaddress.ip_network(network) for network in networks]
    principals: list[Json] = [
        {"remote_ip": {"address_prefix": str(it.network_address), "prefix_len": it.prefixlen}} for it in ranges
    ]
    policy: Json = {"permissions": [{"any": True}], "principals": principals}
    rules: Json = {"action": "DENY", "policies": {_NAME: policy} if principals else {}}
    of_connections = parts.typed(_CONNECTIONS, _RBAC_OF_CONNECTIONS, rules=rules, stat_prefix=_NAME)
    return (
        Resource(Key("extension", _NAME), parts.typed(_NAME, _RBAC, rules=rules)),
        Resource(Key("extension", _CONNECTIONS), of_connections),
    )
