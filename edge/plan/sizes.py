"""The estimated memory of a loaded name in Envoy. Pure.

A test compares the estimate with Envoy's own count for the largest value of each module.
"""

import math

from chalicelib.domains import WILDCARD
from chalicelib.model.edges.modules import UserAgentModule
from chalicelib.model.serving.edge_plans import RouteTarget
from edge.plan.names import NamePlan

WITHDRAWN_KIB = 1  # of a name that is only followed
_NAME_KIB, _ROUTE_KIB, _BACKEND_KIB = 26.0, 6.0, 6.0
_PATTERN_KIB, _LETTER_KIB = 0.6, 0.08  # of user agent filters


def estimate(plan: NamePlan) -> int:
    """Return the KiB that a name takes in Envoy."""
    if not plan.is_served:
        return WITHDRAWN_KIB
    targets = plan.edge.targets if plan.edge else ()
    backends = len(plan.edge.backends) if plan.edge else 1
    routes = sum(_ROUTE_KIB + _estimate_filter(it) for it in targets)
    return math.ceil(_NAME_KIB + routes + _BACKEND_KIB * backends)


def find_wildcard(plan: NamePlan) -> str:
    """Return the host of the plan's edge that matches its name as a wildcard, or ""."""
    hosts = {host.name for host in plan.edge.hosts} if plan.edge else set()
    wildcard = f"{WILDCARD}{plan.name.partition('.')[2]}"
    return wildcard if plan.name not in hosts and wildcard in hosts else ""


def _estimate_filter(target: RouteTarget) -> float:
    rules: UserAgentModule | None = target.route.modules.user_agent_filter
    patterns = [*rules.allow, *rules.deny] if rules else []
    return _PATTERN_KIB * len(patterns) + _LETTER_KIB * sum(map(len, patterns))
