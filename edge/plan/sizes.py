"""The estimated memory of a loaded name in Envoy. Pure.

`python -m bench edge_sizes` compares the estimate with Envoy's own count for the largest value of each module.
"""

import math
from collections.abc import Mapping

from chalicelib.domains import WILDCARD
from chalicelib.model.edges.backends import HttpResponse
from chalicelib.model.edges.modules import UserAgentModule
from chalicelib.model.edges.served import ServedBackend
from chalicelib.model.serving.edge_plans import RouteTarget
from edge.plan.names import NamePlan

WITHDRAWN_KIB = 1  # of a name that is only followed
_NAME_KIB, _TUNNEL_KIB, _ROUTE_KIB = 37.0, 6.0, 7.0  # a certificate with its 404 page; a tunnel; a route
_RESPONSE_KIB, _LETTERS_OF_RESPONSE = 75.0, 5.5  # its listener and cluster; how often Envoy stores body and headers
_GROUP_KIB = 110.0  # the clusters of a tunnel group for HTTP/1.1 and HTTP/2
_FILTER_KIB, _LETTER_KIB = 24.0, 0.03  # of user agent filters


def estimate(plan: NamePlan, backends: Mapping[str, ServedBackend]) -> int:
    """Return the KiB that a name takes in Envoy. Resources that several names share count for each of them."""
    if not plan.is_served:
        return WITHDRAWN_KIB
    if plan.edge is None:
        return math.ceil(_NAME_KIB + _TUNNEL_KIB)
    routes = sum(_ROUTE_KIB + _estimate_filter(it) for it in plan.edge.targets)
    answering = sum(_estimate_backend(backends.get(id)) for id in plan.edge.backends)
    return math.ceil(_NAME_KIB + routes + answering)


def find_wildcard(plan: NamePlan) -> str:
    """Return the host of the plan's edge that matches its name as a wildcard, or ""."""
    hosts = {host.name for host in plan.edge.hosts} if plan.edge else set()
    wildcard = f"{WILDCARD}{plan.name.partition('.')[2]}"
    return wildcard if plan.name not in hosts and wildcard in hosts else ""


def _estimate_filter(target: RouteTarget) -> float:
    rules: UserAgentModule | None = target.route.modules.user_agent_filter
    return _FILTER_KIB + _LETTER_KIB * sum(map(len, (*rules.allow, *rules.deny))) if rules else 0


def _estimate_backend(backend: ServedBackend | None) -> float:
    if backend is None or not isinstance(backend.value, HttpResponse):
        return _GROUP_KIB
    letters = len(backend.value.body) + sum(len(name) + len(it) for name, it in backend.value.headers.items())
    return _RESPONSE_KIB + _LETTERS_OF_RESPONSE * letters / 1024
