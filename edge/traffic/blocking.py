"""The refusal of requests from blocked networks: one resource apart, so that a change of it drains nobody. Pure."""

import ipaddress
from collections.abc import Iterable

from edge.traffic import parts
from edge.traffic.resources import Json, Key, Resource

_NAME = "blocked"
_RBAC = f"{parts.TYPE}.extensions.filters.http.rbac.v3.RBAC"
KEY = Key("extension", _NAME)


def http_filter() -> Json:
    """Return the filter that stands first in each HTTP manager of visitors, and asks of each request."""
    return {"name": _NAME, "config_discovery": {"config_source": parts.ADS, "type_urls": [_RBAC]}}


def resource(networks: Iterable[str]) -> Resource:
    """Return what the filter refuses (403): requests from these networks, also on connections that were open before."""
    ranges = [ipaddress.ip_network(network) for network in networks]
    principals: list[Json] = [
        {"remote_ip": {"address_prefix": str(it.network_address), "prefix_len": it.prefixlen}} for it in ranges
    ]
    policy: Json = {"permissions": [{"any": True}], "principals": principals}
    rules: Json = {"action": "DENY", "policies": {_NAME: policy} if principals else {}}
    return Resource(KEY, parts.typed(_NAME, _RBAC, rules=rules))
