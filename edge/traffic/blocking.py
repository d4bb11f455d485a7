"""The refusal of visitors from blocked networks, and of banned hosts: in resources apart, so that a change of it drains
nobody. Pure.
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator

from edge.traffic import parts
from edge.traffic.resources import Json, Key, Resource

_NAME = "blocked"
_RBAC = f"{parts.TYPE}.extensions.filters.http.rbac.v3.RBAC"
_CONNECTIONS, _RBAC_OF_CONNECTIONS = "blocked/bytes", f"{parts.NETWORK}.rbac.v3.RBAC"
_MOST_LETTERS = 1500  # of one expression: RE2 makes up to six instructions of a letter, and Envoy takes 10,000


def http_filter() -> Json:
    """Return the filter that stands first in each HTTP manager of visitors, and asks of each request."""
    return {"name": _NAME, "config_discovery": {"config_source": parts.ADS, "type_urls": [_RBAC]}}


def network_filter() -> Json:
    """Return the filter of connections of bytes, which asks of the first byte that a client sends."""
    return {
        "name": _CONNECTIONS,
        "config_discovery": {"config_source": parts.ADS, "type_urls": [_RBAC_OF_CONNECTIONS]},
    }


def resources(networks: Iterable[str], banned: Iterable[str]) -> tuple[Resource, Resource]:
    """Return the rules of the filters: what comes from these networks, or asks for a name or pattern of banned hosts,
    is a 403, also on connections that are open.

    A new connection of bytes ends when its client sends something; those that are open the gateway ends. Banned hosts
    are refused here too, since a wildcard host, or an edge from before the ban, has them.
    """
    ranges = [ipaddress.ip_network(network) for network in networks]
    sources: list[Json] = [
        {"remote_ip": {"address_prefix": str(it.network_address), "prefix_len": it.prefixlen}} for it in ranges
    ]
    hosts: list[Json] = [{"safe_regex": {"regex": regex}} for regex in _regexes(banned)]
    asked: list[Json] = [{"header": {"name": ":authority", "string_match": it}} for it in hosts]
    named: list[Json] = [{"requested_server_name": it} for it in hosts]
    return (
        Resource(Key("extension", _NAME), parts.typed(_NAME, _RBAC, rules=_denied(sources, asked))),
        Resource(
            Key("extension", _CONNECTIONS),
            parts.typed(_CONNECTIONS, _RBAC_OF_CONNECTIONS, rules=_denied(sources, named), stat_prefix=_NAME),
        ),
    )


def _denied(sources: list[Json], hosts: list[Json]) -> Json:
    policies: dict[str, Json] = {}
    if sources:
        policies[_NAME] = {"permissions": [{"any": True}], "principals": sources}
    if hosts:
        policies["banned"] = {"permissions": hosts, "principals": [{"any": True}]}
    return {"action": "DENY", "policies": policies}


def _regexes(banned: Iterable[str]) -> Iterator[str]:
    """Yield expressions of the hosts, with or without a port, that match one of the names and patterns."""
    found: list[str] = []
    for text in banned:
        if found and sum(map(len, found)) + len(text) > _MOST_LETTERS:
            yield _any_of(found)
            found = []
        found.append(r"\C*".join(map(re.escape, text.split("*"))))
    if found:
        yield _any_of(found)


def _any_of(expressions: list[str]) -> str:
    return f"(?i)(?:{'|'.join(expressions)})(?::[0-9]*)?"
