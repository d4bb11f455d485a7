"""Records of edges for tests: backends, tunnels, routes, edges and certificates, each with a short id."""

from collections.abc import Iterable, Mapping
from datetime import timedelta

from chalicelib.model.edges.backends import HttpResponse, TunnelGroup, Weighted
from chalicelib.model.edges.modules import BackendModule, MutualTlsModule, TlsEnd, TlsTerminationModule, UserAgentModule
from chalicelib.model.edges.served import Modules, ServedAuthority, ServedBackend, ServedEdge, ServedRoute
from chalicelib.model.tls.tls_certificates import ServedCertificate
from chalicelib.model.tunnels.tunnels import Proto, ServedTunnel
from tests.edge.plan.values import ANSWER, EDGE, GROUP, HOST, NOW, A


def group(id: str = GROUP, *, account: str = A, **labels: str) -> ServedBackend:
    return ServedBackend(account, id, TunnelGroup(labels=labels or {"app": "web"}))


def response(status: int = 200, body: str = "", **headers: str) -> ServedBackend:
    return ServedBackend(A, ANSWER, HttpResponse(status_code=status, headers=headers, body=body))


def weighted(id: str, children: Mapping[str, int]) -> ServedBackend:
    return ServedBackend(A, id, Weighted(backends=children))


def tunnel(
    id: str = "tn_1",
    *,
    account: str = A,
    gateway: str = "gw-1",
    name: str = "",
    proto: Proto = "https",
    **labels: str,
) -> ServedTunnel:
    return ServedTunnel(account, id, gateway, name, labels=labels or {"app": "web"}, proto=proto)


def route(
    match: str = "/",
    backend: str | None = GROUP,
    *,
    id: str = "edghtsrt_1",
    kind: str = "path_prefix",
    agents: UserAgentModule | None = None,
    unenforced: tuple[str, ...] = (),
) -> ServedRoute:
    modules = Modules(
        BackendModule(backend_id=backend) if backend else None, user_agent_filter=agents, unenforced=unenforced
    )
    return ServedRoute(id, kind, match, modules)


def edge(
    *routes: ServedRoute,
    id: str = EDGE,
    account: str = A,
    hosts: Iterable[str] = (HOST,),
    authorities: list[str] | None = None,
    version: str | None = None,
    unenforced: tuple[str, ...] = (),
    backend: str | None = None,
    place: TlsEnd = "edge",
) -> ServedEdge:
    mutual = MutualTlsModule(certificate_authority_ids=authorities) if authorities is not None else None
    termination = TlsTerminationModule(min_version=version) if version else None
    attached = BackendModule(backend_id=backend) if backend else None
    modules = Modules(attached, mutual, termination, unenforced=unenforced)
    hostports = tuple(host if ":" in host else f"{host}:443" for host in hosts)
    return ServedEdge(account, id, 1, hostports, place, modules, routes)


def authority(id: str = "ca_1", *, account: str = A, pem: str = "PEM") -> ServedAuthority:
    return ServedAuthority(account, id, pem)


def certificate(id: str, *names: str, account: str = A) -> ServedCertificate:
    return ServedCertificate(account, id, "", names, NOW - timedelta(1), NOW + timedelta(1))
