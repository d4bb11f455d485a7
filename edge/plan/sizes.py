"""The estimated memory of a loaded name in Envoy. This file does no I/O.

`python -m bench edge_sizes` and tests/live/edge/ondemand/test_sizes.py compare the estimate with the memory that Envoy
reports, for records of the largest permitted sizes.
"""

import math
from collections.abc import Sequence

from chalicelib.domains import WILDCARD
from chalicelib.model.edges import policy_expressions, user_agents
from chalicelib.model.edges.backends import HttpResponse, TunnelGroup
from chalicelib.model.edges.edge_modules import Memory
from chalicelib.model.edges.modules import basic_auth, ip_restriction, user_agent_filter
from chalicelib.model.edges.policy_expressions import Condition
from chalicelib.model.edges.served import ServedBackend
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.edge_plans import RouteTarget
from chalicelib.model.serving.sites import Site
from chalicelib.model.serving.streams import is_group
from chalicelib.model.tunnels import online_tunnels
from edge.plan.names import NamePlan

# Memory measured in Envoy, in KiB. A constant with LETTERS in its name is a factor: bytes of memory for each byte of a
# text. An entry is a route in Envoy's configuration. One route of an edge needs several entries, for example one for
# gRPC and one for each pattern of a user agent filter.
WITHDRAWN_KIB = 1  # a name that is not served any more: control has its records, Envoy has no resources of it
# KiB of a name with its certificate and 404 page, of a tunnel, and of an edge's route with its first entry.
_NAME_KIB, _TUNNEL_KIB, _ROUTE_KIB = 37.0, 6.0, 7.0
_LETTERS_OF_CHAIN = 6.5  # bytes for each byte of a chain above _CHAIN_KIB: Envoy stores the text and the parsed chain
_CHAIN_KIB = 1.5  # the length in KiB of a usual certificate chain. _NAME_KIB includes the memory of such a chain
_LETTERS_OF_PATH = 4.0  # bytes for each byte of a route's path, in each entry of the route
_LETTERS_OF_PATTERN = 60.0  # bytes for each byte of an exact path that a user agent filter turns into a regex
# KiB of each further entry of a route, and of each backend of a route with several backends.
_ENTRY_KIB, _SHARE_KIB = 3.0, 0.6
_RESPONSE_KIB = 75.0  # KiB of the listener and the cluster of a fixed HTTP response
_LETTERS_OF_RESPONSE = 5.5  # bytes for each byte of the body and the headers of a fixed HTTP response
_GROUP_KIB, _MEMBER_KIB = 110.0, 2.5  # KiB of a group's HTTP/1.1 and HTTP/2 clusters, and of each tunnel in the group
_ADDRESSES_KIB, _NETWORK_KIB = 4.0, 0.36  # KiB of a matcher of visitors' addresses, and of each network in the matcher


def estimate(plan: NamePlan, records: AccountRecords) -> int:
    """Return the KiB that a name takes in Envoy. A resource that several names share is counted fully for each."""
    if not plan.is_served:
        return WITHDRAWN_KIB
    name = _NAME_KIB + _estimate_chain(plan.certificate, records)
    if plan.edge is None:
        return math.ceil(name + _TUNNEL_KIB + _estimate_rules(plan.site))
    routes = sum(_estimate_route(target) + _estimate_circuits(target, records) for target in plan.edge.targets)
    routes += _estimate_addresses(plan.edge.refusals) + _estimate_manager(plan.edge.targets)
    answering = sum(_estimate_backend(records.backends.get(id), records) for id in plan.edge.backends)
    return math.ceil(name + routes + answering)


def find_wildcard(plan: NamePlan) -> str:
    """Return the wildcard host by which the plan's edge serves the name.

    Return "" if the edge has exactly this name as a host, or a tunnel serves the name.
    """
    hosts = {host.name for host in plan.edge.hosts} if plan.edge else set()
    wildcard = f"{WILDCARD}{plan.name.partition('.')[2]}"
    return wildcard if plan.name not in hosts and wildcard in hosts else ""


def _estimate_chain(id: str, records: AccountRecords) -> float:
    """Return the KiB for the part of a certificate chain above _CHAIN_KIB."""
    certificate = records.certificates.get(id)
    return _LETTERS_OF_CHAIN * max(0.0, len(certificate.chain) / 1024 - _CHAIN_KIB) if certificate else 0.0


def _estimate_route(target: RouteTarget) -> float:
    """Return the KiB of all entries of an edge's route. Each entry contains all backends of the route."""
    rules, count = target.route.modules.get(user_agent_filter.MODULE), len(target.online)
    modules = _memory_of_modules(target)
    passing = 1 + len(user_agents.build_expressions(rules.allow)) if rules else 1
    entries = passing * (2 if any(is_group(id) for id, _ in target.online) else 1)
    path, is_pattern = len(target.route.match) / 1024, rules and target.route.match_type == "exact_path"
    patterns = (entries + 1) * _LETTERS_OF_PATTERN * path if is_pattern else 0
    entry = _LETTERS_OF_PATH * path + (_SHARE_KIB * count if count > 1 else 0)
    entry += sum(memory.entry_kib for memory in modules)
    entry += _estimate_addresses(target.refusals if target.route.modules.get(ip_restriction.MODULE) else ())
    route = _ROUTE_KIB + sum(memory.route_kib for memory in modules)
    return route + entries * entry + (entries - 1) * _ENTRY_KIB + patterns


def _estimate_manager(targets: Sequence[RouteTarget]) -> float:
    """Return the KiB of an edge's separate HTTP connection manager, or 0 if no module of a route needs one."""
    return max((memory.edge_kib for target in targets for memory in _memory_of_modules(target)), default=0)


def _estimate_rules(site: Site | None) -> float:
    """Return the KiB of a tunnel's restrictions on visitors: passwords and IP policies."""
    passwords = basic_auth.MODULE.memory(site.basic_auth).entry_kib if site and site.basic_auth else 0
    return passwords + _estimate_addresses(site.refusals if site else ())


def _estimate_addresses(refusals: Sequence[Condition]) -> float:
    """Return the KiB of a matcher for the networks of IP policies.

    The matcher belongs to one entry, or to all entries of a host.
    """
    return _ADDRESSES_KIB + _NETWORK_KIB * sum(map(policy_expressions.count_networks, refusals)) if refusals else 0


def _estimate_circuits(target: RouteTarget, records: AccountRecords) -> float:
    """Return the KiB of a route's separate clusters. A route with a circuit breaker shares no clusters."""
    cluster_kibs = [memory.cluster_kib for memory in _memory_of_modules(target) if memory.cluster_kib is not None]
    backends = [records.backends.get(id) for id, _ in target.weights] if cluster_kibs else []
    return sum(sum(cluster_kibs) + _estimate_backend(backend, records) for backend in backends)


def _memory_of_modules(target: RouteTarget) -> list[Memory]:
    return [module.memory(value) for module, value in target.route.modules.declared]


def _estimate_backend(backend: ServedBackend | None, records: AccountRecords) -> float:
    if backend is None or not isinstance(backend.value, HttpResponse | TunnelGroup):
        return _GROUP_KIB
    if isinstance(backend.value, TunnelGroup):
        labels = backend.value.labels
        members = sum(online_tunnels.are_labels_included(tunnel.labels, labels) for tunnel in records.tunnels.values())
        return _GROUP_KIB + _MEMBER_KIB * members
    letters = len(backend.value.body) + sum(len(name) + len(value) for name, value in backend.value.headers.items())
    return _RESPONSE_KIB + _LETTERS_OF_RESPONSE * letters / 1024
