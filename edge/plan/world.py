"""The world that an edge host serves: who owns a name, and which edge or tunnel answers it. Pure."""

from collections.abc import Iterable
from datetime import datetime

from chalicelib.model.edges.served import ServedAuthority, ServedBackend, ServedEdge
from chalicelib.model.names import proofs
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving import certificate_choice
from chalicelib.model.serving.sites import OPERATOR as OPERATOR
from chalicelib.model.serving.sites import OPERATOR_PROXIED as OPERATOR_PROXIED
from chalicelib.model.serving.sites import Site as Site
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.plan.edge_index import host_of, hosts_of, port_of
from edge.plan.record_index import RecordIndex


class World(RecordIndex):
    """The known records, and the decisions about their names."""

    def __init__(self, tunnel_domain: str, tcp_ports: range = range(0)) -> None:
        super().__init__(tunnel_domain)
        self.tcp_ports = tcp_ports
        self._operator_names = frozenset({tunnel_domain, f"*.{tunnel_domain}"})
        self._ready_hosts: dict[str, frozenset[str]] = {}

    def set_ready(self, account: str, hosts: frozenset[str]) -> frozenset[str]:
        """Record that the certificates for an account's hosts have been read. Return the new hosts.

        A host is not served earlier, so that it never shows a wrong certificate first.
        """
        before, self._ready_hosts[account] = self.ready_hosts(account), hosts
        return hosts - before

    def ready_hosts(self, account: str) -> frozenset[str]:
        return self._ready_hosts.get(account, frozenset())

    def is_waiting(self, tunnel: ServedTunnel) -> bool:
        """Return whether a tunnel waits until the certificates of its account have been read."""
        return tunnel.name not in self.ready_hosts(tunnel.account)

    def reject_certificate(self, certificate: str, error: str) -> frozenset[str]:
        """Mark a certificate as rejected by Envoy. Return the hosts that must be re-evaluated."""
        found = self.certificates.get(certificate)
        if found is None or certificate in self.rejected:
            return frozenset()
        self.rejected[certificate] = error
        return self._touched(found)

    def certificate_error(self, account: str, host: str) -> str:
        """Return Envoy's error about an account's certificate for a host, or ""."""
        matching = [it for it in self.certificates_of(account) if certificate_choice.covers_any(it, host)]
        return next((self.rejected[it.id] for it in matching if it.id in self.rejected), "")

    def rename_operator(self, names: frozenset[str]) -> frozenset[str]:
        """Set the names in the operator's certificate. Return the hosts that must be re-evaluated."""
        if names == self._operator_names:
            return frozenset()
        self._operator_names = names
        return frozenset(host for host in self.edge_index.all_hosts() if not self.is_own_domain(host))

    def is_covered(self, certificate: str, host: str) -> bool:
        """Return whether a host's certificate covers it. Only the operator's may not."""
        return certificate != OPERATOR or any(certificate_choice.covers(it, host) for it in self._operator_names)

    def owner_of(self, host: str) -> str | None:
        """Return the account that has proved a host, or None. The longest proved domain decides.

        Below TUNNEL_DOMAIN the store's unique keys decide instead: the account that has a record there is the owner.
        """
        for domain in proofs.list_proving_domains(host):
            if accounts := {it.account for it in self._reservations_at(domain) if it.is_proved}:
                return accounts.pop() if len(accounts) == 1 else None  # two while a domain changes its owner
        return None

    def may_serve(self, account: str, name: str) -> bool:
        """Return whether an account's edge or tunnel may be served at a name."""
        return not self.is_own_domain(name) or self.owner_of(host_of(name)) == account

    def reservation_of(self, account: str, host: str) -> ServedReservation | None:
        """Return an account's proved reservation that covers a host, or None. The longest domain wins."""
        every = (it for domain in proofs.list_proving_domains(host) for it in self._reservations_at(domain))
        return next((it for it in every if it.account == account and it.is_proved), None)

    def refuses_challenges(self, account: str, host: str) -> bool:
        """Return whether a host of an account is below TUNNEL_DOMAIN and not reserved.

        Another account may get such a host soon, while a certificate for it would still be valid.
        """
        return not self.is_own_domain(host) and self.reservation_of(account, host) is None

    def reservations_for(self, account: str, hosts: Iterable[str]) -> list[ServedReservation]:
        """Return the known reservations that decide about hosts, as Store.reservations_for does."""
        wanted = list(hosts)
        every = {
            it
            for host in wanted
            for domain in proofs.list_proving_domains(host)
            for it in self._reservations_at(domain)
        }
        every |= {it for host in wanted for it in self._reservations_under(host)}
        return [it for it in every if it.account == account or self.is_own_domain(it.domain)]

    def certificate(self, account: str, host: str, now: datetime) -> str | None:
        """Return the id of the certificate for an account's host, or None to refuse the handshake.

        Certificates that Envoy rejected are ignored, so an earlier one stays in service.
        """
        reservation = self.reservation_of(account, host)
        chosen = reservation.certificate_id if reservation else ""
        usable = [it for it in self.certificates_of(account) if it.id not in self.rejected]
        found = certificate_choice.choose(host, usable, now, chosen=chosen)
        return found or (None if self.is_own_domain(host) else OPERATOR)

    def site(self, name: str, now: datetime) -> Site | None:
        """Return the site of a name, or None if an edge has the name or no tunnel may serve it."""
        newest = self._newest_tunnel(name)
        if newest is None or port_of(name) or self.edge_at_host(name):
            return None
        if newest.proto == "tls":
            return Site(name, newest, "", refuses_challenges=self.refuses_challenges(newest.account, name))
        if self.is_waiting(newest):
            return None
        certificate = self.certificate(newest.account, name, now)
        if certificate == OPERATOR and newest.proxy_protocol:
            certificate = OPERATOR_PROXIED
        reservation = self.reservation_of(newest.account, name)
        headers = reservation.keep_headers if reservation else ()
        refuses = self.refuses_challenges(newest.account, name)
        return Site(name, newest, certificate, headers, refuses) if certificate else None

    def tunnel_at(self, port: str) -> ServedTunnel | None:
        """Return the tunnel that serves a port, or None if an edge has the port or it is not in TCP_PORTS."""
        is_available = int(port) in self.tcp_ports and not self.edge_at_port(port)
        return self._newest_tunnel(f"{self.tunnel_domain}:{port}") if is_available else None

    def edge_at_host(self, host: str) -> ServedEdge | None:
        """Return the edge that has a host, or None. Even a closed edge takes precedence over a tunnel."""
        return next((it for it in self.edge_index.edges_at_host(host) if self.may_serve(it.account, host)), None)

    def edge_at_port(self, port: str) -> ServedEdge | None:
        """Return the edge that has a port, or None. Even a closed edge takes precedence over a tunnel.

        The account that has the port below TUNNEL_DOMAIN owns it; the store's unique keys allow one account only. The
        port is never served at a domain that another account has proved.
        """
        every = self.edge_index.edges_at_port(port)
        owner = next((it.account for it in every for name in _at(it, port) if not self.is_own_domain(name)), None)
        served = (it for it in every if any(self.may_serve(it.account, name) for name in _at(it, port)))
        return next((it for it in served if it.account == owner), None)

    def names_below(self, domain: str) -> list[str]:
        """Return the names directly below a domain that edges or tunnels have, or that are withheld."""
        tunnels = (it.name for it in self._tunnels_below.get(domain).values() if self.may_serve(it.account, it.name))
        withheld = (it.domain for it in self._reservations_under(f"*.{domain}") if self.is_withheld(it.domain))
        return sorted({*filter(self.edge_at_host, self.edge_index.hosts_below(domain)), *tunnels, *withheld})

    def is_withheld(self, name: str) -> bool:
        """Return whether a wildcard edge must not answer for a name, since another account has proved it."""
        wildcard = self.edge_at_host(f"*.{name.partition('.')[2]}")
        return wildcard is not None and not self.may_serve(wildcard.account, name)

    def members(self, group: ServedBackend) -> list[tuple[ServedTunnel, Gateway]]:
        """Return the tunnels of a group that have a live gateway, with that gateway."""
        found = self.groups.members(group)
        return [(it, self.gateways[it.gateway]) for it in found if it.gateway in self.gateways]

    def is_online(self, group: str) -> bool:
        """Return whether a group has a tunnel with a live gateway."""
        found = self.backends.get(group)
        return found is not None and bool(self.members(found))

    def authorities_of(self, edge: ServedEdge) -> list[ServedAuthority | None]:
        """Return the authorities that an edge trusts, with None for each that its account lacks."""
        ids = edge.modules.mutual_tls.certificate_authority_ids if edge.modules.mutual_tls else []
        found = [self.authorities.get(id) for id in ids]
        return [it if it and it.account == edge.account else None for it in found]

    def _newest_tunnel(self, name: str) -> ServedTunnel | None:
        """Return the newest tunnel that may serve a name and has a live gateway."""
        online = [it for it in self._tunnels_by_name.get(name).values() if it.gateway in self.gateways]
        allowed = [it for it in online if self.may_serve(it.account, name)]
        return max(allowed, key=lambda tunnel: tunnel.id, default=None)  # several if a name was taken over


def _at(edge: ServedEdge, port: str) -> list[str]:
    return [name for name in hosts_of(edge) if port_of(name) == port]
