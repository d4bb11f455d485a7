"""One resource of each kind, different for each number, to measure what encoding costs.

The rules of blocked networks are left out: they change seldom, and all visitors share them.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from chalicelib.model.edges.backends import HttpResponse
from chalicelib.model.serving.edge_plans import Plan, RouteTarget
from chalicelib.model.serving.sites import OPERATOR, Site
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy import answers, clusters, edge_listeners, listeners
from edge.envoy.names import https_listener, scopes
from edge.envoy.resources import Resource
from edge.plan.names import NamePlan
from edge.process.settings import Settings
from tests.edge.plan.worlds import EDGE, GATEWAY, GROUP, HOST, A, authority, edge, group, plan_of, route, tunnel

Build: TypeAlias = Callable[[int], Resource | None]
SETTINGS = Settings()
PEM = f"-----BEGIN CERTIFICATE-----\n{'A' * 64}\n-----END CERTIFICATE-----\n"
_RECORDS = (GATEWAY, tunnel(), group(), authority(pem=PEM))
_EDGE = plan_of(EDGE, *_RECORDS, edge(*(route(f"/{number}", id=f"edghtsrt_{number}") for number in range(5))))
_MUTUAL = plan_of(EDGE, *_RECORDS, edge(route(), authorities=["ca_1"]))
_STREAM = plan_of("edgtls_1", *_RECORDS, edge(id="edgtls_1", backend=GROUP))


def _set_number(plan: Plan, number: int) -> Plan:
    return replace(plan, edge=replace(plan.edge, id=f"{plan.edge.id}{number:09}"))


def _with_paths(plan: Plan, number: int) -> Plan:
    def set_number(target: RouteTarget) -> RouteTarget:
        return replace(target, route=replace(target.route, match=f"{target.route.match}-{number}"))

    return replace(_set_number(plan, number), targets=tuple(map(set_number, plan.targets)))


def _tunnel(number: int) -> ServedTunnel:
    return tunnel(f"tn_{number:09}", name=f"n{number:09}.tunnels.localhost")


def _members(number: int) -> clusters.Members:
    return [(_tunnel(number), GATEWAY), (_tunnel(number + 1), GATEWAY)]


def _gateway_cluster(number: int) -> Resource:
    gateway = replace(GATEWAY, id=f"gw-{number:09}")
    return clusters.build_gateway_clusters(gateway, PEM, SETTINGS)[1]


def _site_scope(number: int) -> Resource | None:
    numbered_tunnel = _tunnel(number)
    return scopes.build_scope(
        NamePlan(numbered_tunnel.name, A, OPERATOR, site=Site(numbered_tunnel.name, numbered_tunnel, OPERATOR))
    )


def _edge_scope(number: int) -> Resource | None:
    return scopes.build_scope(NamePlan(HOST, A, OPERATOR, edge=_with_paths(_EDGE, number)))


KINDS: Mapping[str, Build] = {
    "cluster of a gateway": _gateway_cluster,
    "cluster of a group": lambda number: clusters.build_group_clusters(
        f"bkdtg_{number:09}", _members(number), PEM, SETTINGS
    )[1],
    "cluster of bytes": lambda number: clusters.build_stream_cluster(
        _set_number(_STREAM, number), [(GROUP, 1, _members(number))], PEM, SETTINGS
    ),
    "cluster of a response": lambda number: clusters.build_response_cluster(f"bkdhr_{number:09}"),
    "cluster of a name": lambda number: clusters.build_listener_cluster(
        f"n{number:09}.example.com", f"tunnel/tn_{number:09}"
    ),
    "listener of a port": lambda number: listeners.build_tunnel_port_listener(
        _tunnel(number), str(20_000 + number), SETTINGS
    ),
    "listener of a tunnel": lambda number: listeners.build_tunnel_listener(_tunnel(number), SETTINGS),
    "listener with mutual TLS": lambda number: edge_listeners.build_on_demand_listener(
        _set_number(_MUTUAL, number), SETTINGS
    ),
    "listener of a TLS edge": lambda number: edge_listeners.build_on_demand_listener(
        _set_number(_STREAM, number), SETTINGS
    ),
    "listener of a response": lambda number: answers.build_response_listener(
        "bkdhr_1", HttpResponse(body=f"away {number}"), SETTINGS
    ),
    "part of a listener": lambda number: https_listener.build_special_part(
        f"n{number:09}.example.com", "1.3", SETTINGS
    ),
    "scope of a tunnel": _site_scope,
    "scope of an edge": _edge_scope,
    "secret": lambda number: listeners.build_secret(f"cert_{number:09}", PEM, PEM),
}
