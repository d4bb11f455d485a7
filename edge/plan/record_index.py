"""The records that an edge host knows, by id and by what they name. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from chalicelib import domains
from chalicelib.model.edges.served import ServedAuthority, ServedBackend, ServedEdge
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving import certificate_choice
from chalicelib.model.tls.tls_certificates import ServedCertificate
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.plan.edge_index import EdgeIndex, host_of, hosts_of, port_of
from edge.plan.groups import Groups, Index


@dataclass(frozen=True)
class Removed:
    """The record with this id no longer exists."""

    id: str


Record: TypeAlias = (
    Gateway | ServedTunnel | ServedCertificate | ServedReservation | ServedEdge | ServedBackend | ServedAuthority
)
Update: TypeAlias = Record | Removed


class RecordIndex:
    """All known records, by id. An id belongs to one kind only.

    A name is a host, or host:port for TCP. A host without a port means its HTTPS port.
    """

    def __init__(self, tunnel_domain: str) -> None:
        self.tunnel_domain = tunnel_domain
        self.gateways: dict[str, Gateway] = {}
        self.tunnels: dict[str, ServedTunnel] = {}
        self.certificates: dict[str, ServedCertificate] = {}
        self.reservations: dict[str, ServedReservation] = {}
        self.edges: dict[str, ServedEdge] = {}
        self.backends: dict[str, ServedBackend] = {}
        self.authorities: dict[str, ServedAuthority] = {}
        self.rejected: dict[str, str] = {}  # Envoy's error by certificate id
        self.groups, self.edge_index = Groups(), EdgeIndex()
        self._tunnels_by_name: Index[str, ServedTunnel] = Index()
        self._tunnels_by_account: Index[str, ServedTunnel] = Index()
        self._tunnels_by_gateway: Index[str, ServedTunnel] = Index()
        self._tunnels_below: Index[str, ServedTunnel] = Index()  # by parent domain
        self._certificates_by_account: Index[str, ServedCertificate] = Index()
        self._reservations_by_domain: Index[str, ServedReservation] = Index()
        self._reservations_below: Index[str, ServedReservation] = Index()  # by parent domain
        self._tables = self._make_tables()

    def find(self, id: str) -> Record | None:
        """Return the record with an id, or None."""
        found: Record | None = next((table[id] for table in self._tables.values() if id in table), None)
        return found

    def apply(self, update: Update) -> frozenset[str]:
        """Apply an update. Return the names that must be re-evaluated."""
        before = self.find(update.id)
        if before == update or (before is None and isinstance(update, Removed)):
            return frozenset()
        touched = self._remove(before) if before else frozenset()
        return touched if isinstance(update, Removed) else touched | self._add(update)

    def accounts(self) -> list[str]:
        """Return the accounts that have names."""
        return list({**dict.fromkeys(self._tunnels_by_account), **{it.account: None for it in self.edges.values()}})

    def hosts_of_account(self, account: str) -> frozenset[str]:
        """Return an account's hosts that need a certificate or proof of ownership."""
        tunnels = (tunnel.name for tunnel in self._tunnels_by_account.get(account).values())
        names = self.edge_index.hosts_of_account(account).union(tunnels)
        return frozenset(host_of(name) for name in names if not port_of(name) or self.is_own_domain(name))

    def tunnels_of_gateway(self, gateway: str) -> list[ServedTunnel]:
        return list(self._tunnels_by_gateway.get(gateway).values())

    def certificates_of(self, account: str) -> list[ServedCertificate]:
        return list(self._certificates_by_account.get(account).values())

    def is_own_domain(self, name: str) -> bool:
        """Return whether a name is outside TUNNEL_DOMAIN, so that an account must prove it."""
        return not domains.is_below(host_of(name), self.tunnel_domain)

    def accounts_of_reservation(self, reservation: ServedReservation) -> frozenset[str]:
        """Return the accounts that serve names covered by a reservation."""
        hosts = self.hosts_of_reservation(reservation)
        tunnels = (it.account for host in hosts for it in self._tunnels_by_name.get(host).values())
        return frozenset(it.account for host in hosts for it in self.edge_index.edges_at_host(host)).union(tunnels)

    def hosts_of_reservation(self, reservation: ServedReservation) -> frozenset[str]:
        """Return the served names that depend on a reservation, of every account.

        They include the wildcard above its domain.
        """
        domain = reservation.domain
        if not domain.startswith(domains.WILDCARD):
            wildcard = f"*.{_parent(domain)}"
            has_wildcard = bool(self.edge_index.edges_at_host(wildcard))
            is_served = has_wildcard or self._tunnels_by_name.get(domain) or self.edge_index.edges_at_host(domain)
            hosts = {domain, wildcard} if has_wildcard else {domain} if is_served else set()
            return self.edge_index.tcp_names_at(domain).union(hosts)
        reserved = {it for it in self._reservations_by_domain if not it.startswith(domains.WILDCARD)}
        names = {*self._tunnels_by_name, *self.edge_index.all_hosts(), *reserved}
        return frozenset(name for name in names if host_of(name).endswith(domain.removeprefix("*")))

    def affected_edges(self, id: str) -> frozenset[str]:
        """Return the ids of the edges that use the record with an id."""
        if id in self.edges:
            return frozenset({id})
        part = self.backends.get(id) or self.authorities.get(id)
        return self.edge_index.edges_using(part.account, id) if part else frozenset()

    def affected_groups(self, id: str) -> frozenset[str]:
        """Return the ids of the backends that a change of a record may add tunnels to or remove them from."""
        if id in self.backends:
            return frozenset({id})
        tunnels = [self.tunnels[id]] if id in self.tunnels else self.tunnels_of_gateway(id)
        return frozenset(group for tunnel in tunnels for group in self.groups.groups_of(tunnel))

    def _make_tables(self) -> dict[type, dict[str, Any]]:
        return {
            Gateway: self.gateways,
            ServedTunnel: self.tunnels,
            ServedCertificate: self.certificates,
            ServedReservation: self.reservations,
            ServedEdge: self.edges,
            ServedBackend: self.backends,
            ServedAuthority: self.authorities,
        }

    def _reservations_at(self, domain: str) -> list[ServedReservation]:
        return list(self._reservations_by_domain.get(domain).values())

    def _reservations_under(self, host: str) -> list[ServedReservation]:
        """Return the reservations of a wildcard host and of names directly below it; none for other hosts."""
        if not host.startswith("*"):
            return []
        return list(self._reservations_below.get(host.removeprefix(domains.WILDCARD)).values())

    def _add(self, record: Record) -> frozenset[str]:
        self._tables[type(record)][record.id] = record
        match record:
            case ServedTunnel():
                self.groups.put(record)
                for index, key in self._tunnel_keys(record):
                    index.put([key], record.id, record)
            case ServedCertificate():
                self._certificates_by_account.put([record.account], record.id, record)
            case ServedReservation():
                self._reservations_by_domain.put([record.domain], record.id, record)
                self._reservations_below.put([_parent(record.domain)], record.id, record)
            case ServedEdge():
                self.edge_index.put(record)
            case ServedBackend():
                self.edge_index.put(record)
                self.groups.put(record)
        return self._touched(record)

    def _remove(self, record: Record) -> frozenset[str]:
        touched = self._touched(record)
        del self._tables[type(record)][record.id]
        match record:
            case ServedTunnel():
                self.groups.drop(record)
                for index, key in self._tunnel_keys(record):
                    index.drop([key], record.id)
            case ServedCertificate():
                self.rejected.pop(record.id, None)
                self._certificates_by_account.drop([record.account], record.id)
            case ServedReservation():
                self._reservations_by_domain.drop([record.domain], record.id)
                self._reservations_below.drop([_parent(record.domain)], record.id)
            case ServedEdge():
                self.edge_index.drop(record)
            case ServedBackend():
                self.edge_index.drop(record)
                self.groups.drop(record)
        return touched

    def _tunnel_keys(self, tunnel: ServedTunnel) -> Iterable[tuple[Index[str, ServedTunnel], str]]:
        yield self._tunnels_by_gateway, tunnel.gateway
        if tunnel.name:
            yield self._tunnels_by_name, tunnel.name
            yield self._tunnels_by_account, tunnel.account
            yield self._tunnels_below, _parent(tunnel.name)

    def _touched(self, record: Record) -> frozenset[str]:
        """Return the names that a change of a record may affect."""
        match record:
            case Gateway():
                return frozenset(tunnel.name for tunnel in self.tunnels_of_gateway(record.id) if tunnel.name)
            case ServedTunnel():
                return frozenset({record.name} - {""})
            case ServedCertificate():
                names = self.hosts_of_account(record.account)
                return frozenset(name for name in names if certificate_choice.covers_any(record, name))
            case ServedReservation():
                return self.hosts_of_reservation(record)
            case ServedEdge():
                hosts = hosts_of(record)
                return frozenset(it.domain for host in hosts for it in self._reservations_under(host)).union(hosts)
            case _:
                return frozenset()


def _parent(name: str) -> str:
    return name.partition(".")[2]
