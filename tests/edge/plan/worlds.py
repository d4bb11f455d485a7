"""Records for tests: edges, tunnels, backends and certificates, each with a short id."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from chalicelib.model.edges.backends import HttpResponse, TunnelGroup, Weighted
from chalicelib.model.edges.ip_policies import ServedPolicy
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.modules.mutual_tls import MutualTlsModule
from chalicelib.model.edges.modules.tls_termination import TlsEnd, TlsTerminationModule
from chalicelib.model.edges.modules.user_agent_filter import UserAgentModule
from chalicelib.model.edges.served import ServedAuthority, ServedBackend, ServedEdge, ServedPart, ServedRoute
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving import edge_plans
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.account_view import AccountView, Service
from chalicelib.model.serving.edge_plans import Plan
from chalicelib.model.tls.tls_certificates import ServedCertificate
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import Proto, ServedTunnel
from tests.edge.edge_modules import enabled

Record: TypeAlias = Gateway | ServedTunnel | ServedCertificate | ServedReservation | ServedEdge | ServedPart
NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B = "acct_a", "acct_b"
GATEWAY = Gateway("gw-1", "192.0.2.1", 4433)
GROUP, ANSWER, EDGE = "bkdtg_1", "bkdhr_1", "edghts_1"
DOMAIN = "tunnels.localhost"
HOST = f"a.{DOMAIN}"
SERVICE = Service(DOMAIN, range(20000, 20100), frozenset({DOMAIN, f"*.{DOMAIN}"}))


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
    modules = enabled(
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
    terminate_at: TlsEnd = "edge",
) -> ServedEdge:
    mutual = MutualTlsModule(certificate_authority_ids=authorities) if authorities is not None else None
    termination = TlsTerminationModule(min_version=version) if version else None
    backend_module = BackendModule(backend_id=backend) if backend else None
    modules = enabled(backend_module, mutual_tls=mutual, tls_termination=termination, unenforced=unenforced)
    hostports = tuple(host if ":" in host else f"{host}:443" for host in hosts)
    return ServedEdge(account, id, 1, hostports, terminate_at, modules, routes)


def authority(id: str = "ca_1", *, account: str = A, pem: str = "PEM") -> ServedAuthority:
    return ServedAuthority(account, id, pem)


def certificate(id: str, *names: str, account: str = A) -> ServedCertificate:
    return ServedCertificate(account, id, "", names, NOW - timedelta(1), NOW + timedelta(1))


def records_of(*records: Record, account: str = A, rejected: Mapping[str, str] | None = None) -> AccountRecords:
    """Return the records of one account, and all gateways and reservations."""
    of_account = [
        record
        for record in records
        if not isinstance(record, Gateway | ServedReservation) and record.account == account
    ]
    return AccountRecords(
        account,
        frozenset(),
        tunnels={tunnel.id: tunnel for tunnel in of_account if isinstance(tunnel, ServedTunnel)},
        gateways={gateway.id: gateway for gateway in records if isinstance(gateway, Gateway)},
        edges={edge.id: edge for edge in of_account if isinstance(edge, ServedEdge)},
        backends={backend.id: backend for backend in of_account if isinstance(backend, ServedBackend)},
        authorities={authority.id: authority for authority in of_account if isinstance(authority, ServedAuthority)},
        policies={policy.id: policy for policy in of_account if isinstance(policy, ServedPolicy)},
        certificates={
            certificate.id: certificate for certificate in of_account if isinstance(certificate, ServedCertificate)
        },
        reservations=tuple(reservation for reservation in records if isinstance(reservation, ServedReservation)),
        rejected=rejected or {},
    )


def view_of(*records: Record, account: str = A, service: Service = SERVICE) -> AccountView:
    """Return the decisions about the names of one account."""
    return AccountView(records_of(*records, account=account), service)


def plan_of(id: str, *records: Record, service: Service = SERVICE) -> Plan:
    """Return the plan of an edge of account A."""
    view = view_of(*records, service=service)
    return edge_plans.make_plan(view.edges[id], view, NOW)
