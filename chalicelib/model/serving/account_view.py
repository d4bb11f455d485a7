"""Decides which edge or tunnel of an account answers at a name, from the account's records. This file does no I/O."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TypeVar

from chalicelib import domains
from chalicelib.model.edges import ip_policies
from chalicelib.model.edges.backends import TunnelGroup
from chalicelib.model.edges.ip_policies import Rules
from chalicelib.model.edges.modules import mutual_tls
from chalicelib.model.edges.policy_expressions import Condition
from chalicelib.model.edges.served import ServedAuthority, ServedBackend, ServedEdge, host_of, port_of
from chalicelib.model.names import proofs
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving import certificate_choice, sites
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.sites import OPERATOR, Site
from chalicelib.model.tls.tls_certificates import ServedCertificate
from chalicelib.model.tunnels import online_tunnels
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel

K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True)
class Service:
    """Values of the whole service. With an account's records, they decide which edge or tunnel answers at a name.

    `operator_names` are the names in the operator's certificate. `managed_apps` are the identity providers for which
    the operator has an OAuth application.
    """

    tunnel_domain: str
    tcp_ports: range = range(0)
    operator_names: frozenset[str] = frozenset()
    managed_apps: frozenset[str] = frozenset()


class AccountView:
    """Decides which edge, tunnel and certificate serve the names of one account.

    A name is a host, or host:port for TCP. The parameter `account` of a method is the account of an edge or tunnel. If
    that is not the account of this view, `may_serve` returns False.
    """

    def __init__(self, records: AccountRecords, service: Service) -> None:
        self.account, self.service, self.tcp_ports = records.account, service, service.tcp_ports
        self.backends: Mapping[str, ServedBackend] = records.backends
        self.gateways: Mapping[str, Gateway] = records.gateways
        self.policies: Mapping[str, Rules | None] = {id: policy.rules for id, policy in records.policies.items()}
        self.certificates: Mapping[str, ServedCertificate] = records.certificates
        self.edges: Mapping[str, ServedEdge] = records.edges if records.is_active else {}
        self._records = records

    def is_own_domain(self, name: str) -> bool:
        """Return whether a name is outside TUNNEL_DOMAIN, so that an account must prove the domain."""
        return not domains.is_below(host_of(name), self.service.tunnel_domain)

    def owner_of(self, host: str) -> str | None:
        """Return the account that has proved a host, or None. The most specific proved domain decides."""
        for domain in proofs.list_proving_domains(host):
            reservations = self._reservations_by_domain.get(domain, ())
            if accounts := {reservation.account for reservation in reservations if reservation.is_proved}:
                # While a domain changes its owner, the records can show both owners. Then neither is served.
                return accounts.pop() if len(accounts) == 1 else None
        return None

    def may_serve(self, account: str, name: str) -> bool:
        """Return whether an account's edge or tunnel may be served at a name.

        For the account of this view, this is always true below TUNNEL_DOMAIN: the table makes these names unique.
        """
        return account == self.account and (not self.is_own_domain(name) or self.owner_of(host_of(name)) == account)

    def reservation_of(self, account: str, host: str) -> ServedReservation | None:
        """Return the account's proved reservation that covers a host, or None. The most specific domain wins."""
        reservations = self._reservations_over(account, host)
        return next((reservation for reservation in reservations if reservation.is_proved), None)

    def restrictions_of(self, account: str, host: str) -> list[ServedReservation]:
        """Return the reservations that restrict visitors of an account's tunnel, the most specific domain first.

        They are the proved reservation with the most specific domain, and reservations of more specific domains with a
        proof that is pending or has lapsed. A missing DNS record must not open a tunnel to all visitors.
        """
        restrictions: list[ServedReservation] = []
        for reservation in self._reservations_over(account, host):
            restrictions.append(reservation)
            if reservation.is_proved:
                break
        return restrictions

    def refuses_challenges(self, account: str, host: str) -> bool:
        """Return whether challenges of certificate authorities are refused for a host.

        They are refused for a host below TUNNEL_DOMAIN that the account has not reserved: another account may soon get
        the host, and a certificate for the host would still be valid then.
        """
        return not self.is_own_domain(host) and self.reservation_of(account, host) is None

    def certificate(self, account: str, host: str, now: datetime) -> str | None:
        """Return the id of the certificate for an account's host, or None to refuse the handshake.

        A certificate that Envoy rejected is ignored, so that an earlier one is served.
        """
        reservation = self.reservation_of(account, host)
        chosen = reservation.certificate_id if reservation else ""
        certificates, rejected = self._certificates_for(host), self._records.rejected
        usable = [certificate for certificate in certificates if certificate.id not in rejected]
        certificate_id = certificate_choice.choose(host, usable, now, chosen=chosen)
        return certificate_id or (None if self.is_own_domain(host) else OPERATOR)

    def certificate_error(self, account: str, host: str) -> str:
        """Return Envoy's error about an account's certificate for a host, or ""."""
        rejected = self._records.rejected
        ids = (certificate.id for certificate in self._certificates_for(host))
        return next((rejected[id] for id in ids if id in rejected), "")

    def is_covered(self, certificate: str, host: str) -> bool:
        """Return whether the certificate with which a host answers covers the host.

        Only the operator's certificate is checked, because `certificate` chooses others only if they cover the host.
        """
        names = self.service.operator_names
        return certificate != OPERATOR or any(certificate_choice.covers(name, host) for name in names)

    def site(self, name: str, now: datetime) -> Site | None:
        """Return the site (served tunnel) at a host name, or None.

        Return None if an edge has the name, if no tunnel may use the name, or if the name has no certificate.
        """
        tunnel = self.tunnel_at_host(name)
        if tunnel is None or self.edge_at_host(name):
            return None
        restrictions = self.restrictions_of(tunnel.account, name)
        refusals = sites.find_refusals(tunnel, restrictions, self.policies)
        site = Site(name, tunnel, "", (), self.refuses_challenges(tunnel.account, name), refusals)
        source, passwords = sites.find_passwords(restrictions)
        if tunnel.proto == "tls":  # if a password is required, refuse all: the edge cannot read encrypted passwords
            return replace(site, refusals=ip_policies.REFUSE_ALL) if passwords else site
        certificate = self.certificate(tunnel.account, name, now)
        if not certificate:
            return None
        reservation = self.reservation_of(tunnel.account, name)
        headers = reservation.keep_headers if reservation else ()
        return replace(site, certificate=certificate, keep_headers=headers, reservation=source, basic_auth=passwords)

    def tunnel_at_host(self, host: str) -> ServedTunnel | None:
        """Return the newest tunnel that may serve a host and has a live gateway, or None."""
        return None if port_of(host) else self._newest_tunnel(host)

    def tunnel_at(self, port: str) -> ServedTunnel | None:
        """Return the tunnel that serves a port.

        Return None without such a tunnel, if an edge has the port, or if TCP_PORTS does not contain the port.
        """
        is_available = int(port) in self.tcp_ports and not self.edge_at_port(port)
        return self._newest_tunnel(self._address(port)) if is_available else None

    def refusals_at(self, port: str) -> tuple[Condition, ...]:
        """Return the conditions under which the tunnel with a port refuses visitors."""
        reserved = self._records.addresses.get(self._address(port), ())
        return sites.find_refusals(self.tunnel_at(port), reserved, self.policies)

    def _address(self, port: str) -> str:
        return f"{self.service.tunnel_domain}:{port}"

    def edge_at_host(self, host: str) -> ServedEdge | None:
        """Return the edge that has a host, or None. An edge precedes a tunnel, even if it refuses all visitors."""
        return next((edge for edge in self._edges_by_name.get(host, ()) if self.may_serve(edge.account, host)), None)

    def edge_at_port(self, port: str) -> ServedEdge | None:
        """Return the edge that has a port, or None. An edge precedes a tunnel, even if it refuses all visitors.

        A TCP edge has names of the form host:port. Returns None unless an edge of the account has a name with this port
        and a host below TUNNEL_DOMAIN. Names that the account may not serve (`may_serve`) are ignored.
        """
        edges = [edge for edge in self._oldest_edges if port in map(port_of, edge.hosts)]
        names = {edge.id: [name for name in edge.hosts if port_of(name) == port] for edge in edges}
        if all(self.is_own_domain(name) for edge in edges for name in names[edge.id]):
            return None
        allowed = (edge for edge in edges if any(self.may_serve(edge.account, name) for name in names[edge.id]))
        return next(allowed, None)

    def names_below(self, domain: str) -> list[str]:
        """Return the names one label below a domain that edges or tunnels have, or that another account has proved."""
        hosts = {name for name in self._edges_by_name if _parent(name) == domain and self.edge_at_host(name)}
        names = {name for tunnel in self._records.tunnels.values() if (name := tunnel.name) and _parent(name) == domain}
        tunnels = {name for name in names if self.may_serve(self.account, name)}
        reserved = (name for name in self._reservations_by_domain if _parent(name) == domain)
        return sorted({*hosts, *tunnels, *filter(self.is_withheld, reserved)})

    def is_withheld(self, name: str) -> bool:
        """Return whether an edge with a wildcard must not answer for a name, because another account has proved the
        name.
        """
        wildcard = self.edge_at_host(f"{domains.WILDCARD}{_parent(name)}")
        return wildcard is not None and not self.may_serve(wildcard.account, name)

    def members(self, group: ServedBackend) -> list[tuple[ServedTunnel, Gateway]]:
        """Return the tunnels of a tunnel group with their live gateways, sorted by id.

        Tunnels of draining gateways are left out, unless there are no others.
        """
        labels = group.value.labels if isinstance(group.value, TunnelGroup) else {}
        fewest = min((self._tunnels_by_label.get(label, ()) for label in labels.items()), key=len, default=())
        tunnels = (tunnel for tunnel in fewest if online_tunnels.are_labels_included(tunnel.labels, labels))
        members = [(tunnel, self._records.gateways[tunnel.gateway]) for tunnel in tunnels]
        return [member for member in members if not member[1].draining] or members

    def is_online(self, group: str) -> bool:
        """Return whether a tunnel group has a tunnel with a live gateway."""
        backend = self.backends.get(group)
        return backend is not None and bool(self.members(backend))

    def authorities_of(self, edge: ServedEdge) -> list[ServedAuthority | None]:
        """Return the authorities that an edge trusts for mutual TLS. An authority without a record is None."""
        module = edge.modules.get(mutual_tls.MODULE)
        ids = module.certificate_authority_ids if module else []
        return [self._records.authorities.get(id) for id in ids]

    def _reservations_over(self, account: str, host: str) -> Iterator[ServedReservation]:
        """Yield an account's reservations that cover a host, the most specific domain first."""
        for domain in proofs.list_proving_domains(host):
            reservations = self._reservations_by_domain.get(domain, ())
            yield from (reservation for reservation in reservations if reservation.account == account)

    def _newest_tunnel(self, name: str) -> ServedTunnel | None:
        candidates = (tunnel for tunnel in self._tunnels_by_name.get(name, ()) if self.may_serve(tunnel.account, name))
        # While a tunnel takes the name from another tunnel, the records can show both. The newer tunnel is served.
        return max(candidates, key=lambda tunnel: tunnel.id, default=None)

    def _certificates_for(self, host: str) -> list[ServedCertificate]:
        """Return the certificates that cover a host, in the order of the records."""
        wildcard = f"{domains.WILDCARD}{_parent(host)}"
        ids = {certificate.id for name in (host, wildcard) for certificate in self._certificates_by_name.get(name, ())}
        return [certificate for id, certificate in self.certificates.items() if id in ids] if ids else []

    @cached_property
    def _tunnels(self) -> list[ServedTunnel]:
        """Return the tunnels with a live gateway, sorted by id. Return [] if the account is switched off."""
        tunnels = self._records.tunnels.values() if self._records.is_active else ()
        reachable = (tunnel for tunnel in tunnels if tunnel.gateway in self._records.gateways)
        return sorted(reachable, key=lambda tunnel: tunnel.id)

    @cached_property
    def _tunnels_by_name(self) -> Mapping[str, Sequence[ServedTunnel]]:
        return _group((tunnel.name, tunnel) for tunnel in self._tunnels)

    @cached_property
    def _tunnels_by_label(self) -> Mapping[tuple[str, str], Sequence[ServedTunnel]]:
        return _group((label, tunnel) for tunnel in self._tunnels for label in tunnel.labels.items())

    @cached_property
    def _edges_by_name(self) -> Mapping[str, Sequence[ServedEdge]]:
        return _group((name, edge) for edge in self._oldest_edges for name in edge.hosts)

    @cached_property
    def _oldest_edges(self) -> list[ServedEdge]:
        return sorted(self.edges.values(), key=lambda edge: edge.id)

    @cached_property
    def _certificates_by_name(self) -> Mapping[str, Sequence[ServedCertificate]]:
        certificates = self.certificates.values()
        return _group((name.lower(), certificate) for certificate in certificates for name in certificate.names)

    @cached_property
    def _reservations_by_domain(self) -> Mapping[str, Sequence[ServedReservation]]:
        return _group((reservation.domain, reservation) for reservation in self._records.reservations)


def _parent(name: str) -> str:
    return name.partition(".")[2]


def _group(entries: Iterable[tuple[K, T]]) -> Mapping[K, Sequence[T]]:
    """Return the values of (key, value) pairs by key. The values of each key are in the order of the pairs."""
    groups: dict[K, list[T]] = {}
    for key, value in entries:
        groups.setdefault(key, []).append(value)
    return groups
