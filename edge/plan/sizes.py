"""The estimated memory of a loaded name in Envoy. Pure.

`python -m bench edge_sizes` and tests/live/edge/ondemand/test_sizes.py compare the estimate with Envoy's own count for
the largest values.
"""

import math
from collections.abc import Sequence

from chalicelib.domains import WILDCARD
from chalicelib.model.edges import policy_expressions, user_agents
from chalicelib.model.edges.backends import HttpResponse, TunnelGroup
from chalicelib.model.edges.modules import UserAgentModule
from chalicelib.model.edges.policy_expressions import Condition
from chalicelib.model.edges.served import ServedBackend
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.edge_plans import RouteTarget
from chalicelib.model.serving.streams import is_group
from chalicelib.model.tunnels import online_tunnels
from edge.plan.names import NamePlan

WITHDRAWN_KIB = 1  # of a name that is only followed
_NAME_KIB, _TUNNEL_KIB, _ROUTE_KIB = 37.0, 6.0, 7.0  # a certificate with its 404 page; a tunnel; a route
_LETTERS_OF_CHAIN = 6.5  # how much a longer chain takes, parsed and as text
_CHAIN_KIB = 1.5  # of a chain that is not long
_LETTERS_OF_PATH = 4.0  # how often Envoy stores the path of a route, for each of its entries
_LETTERS_OF_PATTERN = 60.0  # the same of an exact path beside a filter, which is a pattern in each entry
_ENTRY_KIB, _SHARE_KIB = 3.0, 0.6  # a further entry of a route for gRPC or a filter; a backend among several
_RESPONSE_KIB, _LETTERS_OF_RESPONSE = 75.0, 5.5  # its listener and cluster; how often Envoy stores body and headers
_GROUP_KIB, _MEMBER_KIB = 110.0, 2.5  # the clusters of a tunnel group for HTTP/1.1 and HTTP/2; each of its tunnels
_FILTER_KIB, _LETTER_KIB = 24.0, 0.03  # of user agent filters
_CIRCUIT_KIB = 4.0  # of the detector of failures in the two clusters
_MODULE_KIB = 1.0  # of compression, in each entry
_WEBHOOK_KIB = 2.0  # of webhook verification, in each entry
_ADDRESSES_KIB, _NETWORK_KIB = 4.0, 0.36  # of the matcher of visitors' addresses, in each entry; of each network
_HEADER_KIB, _LETTERS_OF_HEADER = 0.6, 4.0  # of each changed header, in each entry; how often Envoy stores its text


def estimate(plan: NamePlan, records: AccountRecords) -> int:
    """Return the KiB that a name takes in Envoy. Resources that several names share count for each of them."""
    if not plan.is_served:
        return WITHDRAWN_KIB
    name = _NAME_KIB + _estimate_chain(plan.certificate, records)
    if plan.edge is None:
        return math.ceil(name + _TUNNEL_KIB + _estimate_addresses(plan.site.refusals if plan.site else ()))
    routes = sum(_estimate_route(it) + _estimate_circuits(it, records) for it in plan.edge.targets)
    routes += _estimate_addresses(plan.edge.refusals)
    answering = sum(_estimate_backend(records.backends.get(id), records) for id in plan.edge.backends)
    return math.ceil(name + routes + answering)


def find_wildcard(plan: NamePlan) -> str:
    """Return the host of the plan's edge that matches its name as a wildcard, or ""."""
    hosts = {host.name for host in plan.edge.hosts} if plan.edge else set()
    wildcard = f"{WILDCARD}{plan.name.partition('.')[2]}"
    return wildcard if plan.name not in hosts and wildcard in hosts else ""


def _estimate_chain(certificate: str, records: AccountRecords) -> float:
    """Return what a long chain takes more than a usual one."""
    found = records.certificates.get(certificate)
    return _LETTERS_OF_CHAIN * max(0.0, len(found.chain) / 1024 - _CHAIN_KIB) if found else 0.0


def _estimate_route(target: RouteTarget) -> float:
    """Return what a route takes. Each form of request that it accepts is an entry with all its backends."""
    rules, count = target.route.modules.user_agent_filter, len(target.online)
    passing = 1 + len(user_agents.build_expressions(rules.allow)) if rules else 1
    entries = passing * (2 if any(is_group(id) for id, _ in target.online) else 1)
    path, is_pattern = len(target.route.match) / 1024, rules and target.route.match_type == "exact_path"
    patterns = (entries + 1) * _LETTERS_OF_PATTERN * path if is_pattern else 0
    entry = _LETTERS_OF_PATH * path + (_SHARE_KIB * count if count > 1 else 0) + _estimate_headers(target)
    entry += _MODULE_KIB if target.route.modules.compression else 0
    entry += _WEBHOOK_KIB if target.route.modules.webhook_verification else 0
    entry += _estimate_addresses(target.refusals if target.route.modules.ip_restriction else ())
    return _ROUTE_KIB + entries * entry + (entries - 1) * _ENTRY_KIB + patterns + _estimate_filter(rules)


def _estimate_addresses(refusals: Sequence[Condition]) -> float:
    """Return what the networks of IP policies take in one entry of a route, or for all requests of a host."""
    return _ADDRESSES_KIB + _NETWORK_KIB * sum(map(policy_expressions.count_networks, refusals)) if refusals else 0


def _estimate_circuits(target: RouteTarget, records: AccountRecords) -> float:
    """Return what the clusters of a route with a circuit breaker take."""
    if not target.route.modules.circuit_breaker:
        return 0
    return sum(_CIRCUIT_KIB + _estimate_backend(records.backends.get(id), records) for id, _ in target.weights)


def _estimate_headers(target: RouteTarget) -> float:
    """Return what the changed headers of a route take in one of its entries."""
    modules = (target.route.modules.request_headers, target.route.modules.response_headers)
    texts = [
        text for it in modules if it for text in (*it.remove, *(f"{name}{value}" for name, value in it.add.items()))
    ]
    return _HEADER_KIB * len(texts) + _LETTERS_OF_HEADER * sum(map(len, texts)) / 1024


def _estimate_filter(rules: UserAgentModule | None) -> float:
    return _FILTER_KIB + _LETTER_KIB * sum(map(len, (*rules.allow, *rules.deny))) if rules else 0


def _estimate_backend(backend: ServedBackend | None, records: AccountRecords) -> float:
    if backend is None or not isinstance(backend.value, HttpResponse | TunnelGroup):
        return _GROUP_KIB
    if isinstance(backend.value, TunnelGroup):
        labels = backend.value.labels
        members = sum(online_tunnels.are_labels_included(it.labels, labels) for it in records.tunnels.values())
        return _GROUP_KIB + _MEMBER_KIB * members
    letters = len(backend.value.body) + sum(len(name) + len(it) for name, it in backend.value.headers.items())
    return _RESPONSE_KIB + _LETTERS_OF_RESPONSE * letters / 1024
