"""The world that an edge host serves: gateways, tunnels, certificates, reserved domains and edges, as known. Pure.

They change one by one. Here alone stands whose a name is, and which edge or tunnel answers it. A name is a host, whose
port of HTTPS is meant, or of TCP host:port.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias, TypeVar

from chalicelib import domains
from chalicelib.model import proofs
from chalicelib.model.gateways import Gateway
from chalicelib.model.reservations import ServedReservation
from chalicelib.model.served import ServedAuthority, ServedBackend, ServedEdge
from chalicelib.model.tls_certificates import ServedCertificate
from chalicelib.model.tunnels import ServedTunnel
from edge.traffic import certificate_choice
from edge.traffic.edge_index import EdgeIndex, host_of, hosts_of, port_of
from edge.traffic.groups import Groups

T = TypeVar("T")
OPERATOR_PROXIED = "operator-proxied"  # the same where upstreams read the PROXY protocol: such connections are apart
OPERATOR = "operator"  # in the place of a certificate's id: the operator's own, which every unknown name has too


@dataclass(frozen=True)
class Removed:
    """The thing of an id is not there any more."""

    id: str


Record: TypeAlias = (
    Gateway | ServedTunnel | ServedCertificate | ServedReservation | ServedEdge | ServedBackend | ServedAuthority
)
Update: TypeAlias = Record | Removed


@dataclass(frozen=True)
class Site:
    """A host name that is served: by a tunnel, under the certificate of an id, "" where TLS ends upstream.

    `refuses_challenges`: nobody may prove to a certificate authority that the name is theirs.
    """

    name: str
    tunnel: ServedTunnel
    certificate: str
    keep_headers: tuple[str, ...] = ()
    refuses_challenges: bool = False


class World:
    """All that is known, by id: ids are of one kind each."""

    def __init__(self, tunnel_domain: str, tcp_ports: range = range(0)) -> None:
        self.tunnel_domain, self.tcp_ports = tunnel_domain, tcp_ports
        self._operator_names = frozenset({tunnel_domain, f"*.{tunnel_domain}"})
        self.gateways: dict[str, Gateway] = {}
        self.tunnels: dict[str, ServedTunnel] = {}
        self.certificates: dict[str, ServedCertificate] = {}
        self.reservations: dict[str, ServedReservation] = {}
        self._by_domain: defaultdict[str, dict[str, ServedReservation]] = defaultdict(dict)
        self._held_below: defaultdict[str, dict[str, ServedReservation]] = defaultdict(dict)
        self.edges: dict[str, ServedEdge] = {}
        self.backends: dict[str, ServedBackend] = {}
        self.authorities: dict[str, ServedAuthority] = {}
        self.groups, self.edge_index = Groups(), EdgeIndex()
        self._by_name: defaultdict[str, dict[str, ServedTunnel]] = defaultdict(dict)
        self._by_account: defaultdict[str, dict[str, ServedTunnel]] = defaultdict(dict)
        self._below: defaultdict[str, dict[str, ServedTunnel]] = defaultdict(dict)
        self._by_gateway: defaultdict[str, dict[str, ServedTunnel]] = defaultdict(dict)
        self._of_account: defaultdict[str, dict[str, ServedCertificate]] = defaultdict(dict)
        self._ready: dict[str, frozenset[str]] = {}
        self.rejected: dict[str, str] = {}  # certificates that the engine cannot use, each with its sentence

    def find(self, id: str) -> Record | None:
        """Return the fact that is known under an id."""
        places = (
            self.gateways,
            self.tunnels,
            self.certificates,
            self.reservations,
            self.edges,
            self.backends,
            self.authorities,
        )
        return next((place[id] for place in places if id in place), None)

    def apply(self, fact: Update) -> frozenset[str]:
        """Take up a fact; return the names for which something else may be served now."""
        before = self.find(fact.id)
        if before == fact or (before is None and isinstance(fact, Removed)):
            return frozenset()
        touched = self._drop(before) if before else frozenset()
        return touched if isinstance(fact, Removed) else touched | self._add(fact)

    def set_ready(self, account: str, names: frozenset[str]) -> frozenset[str]:
        """Hear that all certificates of an account which cover some of its names are known; return the new ones.

        A name is not served before, so that it never has a wrong certificate first.
        """
        before, self._ready[account] = self._ready.get(account, frozenset()), names
        return names - before

    def reject_certificate(self, certificate: str, sentence: str) -> frozenset[str]:
        """Hear that the engine cannot use a certificate; return the names for which another may be served now."""
        found = self.certificates.get(certificate)
        if found is None or certificate in self.rejected:
            return frozenset()
        self.rejected[certificate] = sentence
        return self._touched(found)

    def certificate_error(self, account: str, host: str) -> str:
        """Return the engine's sentence about a certificate of an account for a host that it cannot use, else ""."""
        fitting = [it for it in self.certificates_of(account) if certificate_choice.covers_any(it, host)]
        return next((self.rejected[it.id] for it in fitting if it.id in self.rejected), "")

    def rename_operator(self, names: frozenset[str]) -> frozenset[str]:
        """Set the names in the operator's certificate. Return the hosts that must be re-evaluated."""
        if names == self._operator_names:
            return frozenset()
        self._operator_names = names
        return frozenset(host for host in self.edge_index.all_hosts() if not self.is_own_domain(host))

    def is_covered(self, certificate: str, host: str) -> bool:
        """Return whether the certificate that a host is served under covers it: the operator's may not."""
        names = self._operator_names
        return certificate != OPERATOR or any(certificate_choice.covers(name, host) for name in names)

    def ready_hosts(self, account: str) -> frozenset[str]:
        return self._ready.get(account, frozenset())

    def is_waiting(self, tunnel: ServedTunnel) -> bool:
        """Tell whether a tunnel's name waits for the certificates of its account."""
        return tunnel.name not in self._ready.get(tunnel.account, ())

    def accounts(self) -> list[str]:
        """Return the accounts that have names."""
        return list({**self._by_account, **dict.fromkeys(edge.account for edge in self.edges.values())})

    def hosts_of_account(self, account: str) -> frozenset[str]:
        """Return the hosts of an account's tunnels and edges that have certificates, or must be proved."""
        tunnels = (tunnel.name for tunnel in self._by_account.get(account, {}).values())
        every = self.edge_index.hosts_of_account(account).union(tunnels)
        return frozenset(host_of(name) for name in every if not port_of(name) or self.is_own_domain(name))

    def tunnels_of_gateway(self, gateway: str) -> list[ServedTunnel]:
        return list(self._by_gateway.get(gateway, {}).values())

    def certificates_of(self, account: str) -> list[ServedCertificate]:
        return list(self._of_account.get(account, {}).values())

    def is_own_domain(self, name: str) -> bool:
        """Tell whether a name is not below TUNNEL_DOMAIN, so that its account must have proved it."""
        return not domains.is_below(host_of(name), self.tunnel_domain)

    def owner_of(self, host: str) -> str | None:
        """Return the account that has proved a host, by the longest of the proved domains; None where none has.

        Of a host below TUNNEL_DOMAIN the store's keys decide: whoever has something there is its owner.
        """
        for domain in proofs.proving_names(host):
            if proved := {it.account for it in self._held_at(domain) if it.is_proved}:
                return proved.pop() if len(proved) == 1 else None  # while it passes from one to another
        return None

    def may_serve(self, account: str, name: str) -> bool:
        """Tell whether what an account has at a name may be served."""
        return not self.is_own_domain(name) or self.owner_of(host_of(name)) == account

    def reservation_of(self, account: str, host: str) -> ServedReservation | None:
        """Return the reservation of an account that stands for a host, the longest one; None where it has none."""
        every = (it for domain in proofs.proving_names(host) for it in self._held_at(domain))
        return next((it for it in every if it.account == account and it.is_proved), None)

    def refuses_challenges(self, account: str, host: str) -> bool:
        """Return whether a host of an account is below TUNNEL_DOMAIN and not reserved.

        It may be another account's soon, and a certificate for it would outlive that.
        """
        return not self.is_own_domain(host) and self.reservation_of(account, host) is None

    def reservations_for(self, account: str, hosts: Iterable[str]) -> list[ServedReservation]:
        """Return the known reservations that matter for hosts of an account, as Store.reservations_for does."""
        wanted = list(hosts)
        every = {it for host in wanted for domain in proofs.proving_names(host) for it in self._held_at(domain)}
        every |= {it for host in wanted for it in self._held_under(host)}
        return [it for it in every if it.account == account or self.is_own_domain(it.domain)]

    def certificate(self, account: str, host: str, now: datetime) -> str | None:
        """Return the id of the certificate that an account's host is served under; None: the handshake is refused.

        One that the engine cannot use leaves those before it in service.
        """
        held = self.reservation_of(account, host)
        chosen = held.certificate_id if held else ""
        usable = [it for it in self.certificates_of(account) if it.id not in self.rejected]
        found = certificate_choice.choose(host, usable, now, chosen=chosen)
        return found or (None if self.is_own_domain(host) else OPERATOR)

    def site(self, name: str, now: datetime) -> Site | None:
        """Return the site of a name that no edge has: its newest tunnel that may be served and whose gateway is up."""
        newest = self._newest(name)
        if newest is None or port_of(name) or self.edge_at_host(name):
            return None
        if newest.proto == "tls":
            return Site(name, newest, "", refuses_challenges=self.refuses_challenges(newest.account, name))
        if self.is_waiting(newest):
            return None
        certificate = self.certificate(newest.account, name, now)
        if certificate == OPERATOR and newest.proxy_protocol:
            certificate = OPERATOR_PROXIED
        held = self.reservation_of(newest.account, name)
        kept, refuses = held.keep_headers if held else (), self.refuses_challenges(newest.account, name)
        return Site(name, newest, certificate, kept, refuses) if certificate else None

    def tunnel_at(self, port: str) -> ServedTunnel | None:
        """Return the tunnel that serves a port: its newest whose gateway is up, where no edge has it."""
        is_open = int(port) in self.tcp_ports and not self.edge_at_port(port)
        return self._newest(f"{self.tunnel_domain}:{port}") if is_open else None

    def _newest(self, name: str) -> ServedTunnel | None:
        """Return the newest tunnel of a name that may be served and whose gateway is up."""
        live = [it for it in self._by_name.get(name, {}).values() if it.gateway in self.gateways]
        up = [it for it in live if self.may_serve(it.account, name)]
        return max(up, key=lambda tunnel: tunnel.id, default=None)  # where a name was taken over

    def edge_at_host(self, host: str) -> ServedEdge | None:
        """Return the edge that has a host, also one that is closed; a tunnel of that name is not served."""
        return next((edge for edge in self.edge_index.edges_at_host(host) if self.may_serve(edge.account, host)), None)

    def edge_at_port(self, port: str) -> ServedEdge | None:
        """Return the edge that has a port, also one that is closed; a tunnel at that port is not served.

        A port is the account's that has it below TUNNEL_DOMAIN, where the store's keys decide. At a domain that is
        proved to be another's it is nobody's.
        """
        every = self.edge_index.edges_at_port(port)
        owner = next((it.account for it in every for name in _at(it, port) if not self.is_own_domain(name)), None)
        served = (it for it in every if any(self.may_serve(it.account, name) for name in _at(it, port)))
        return next((it for it in served if it.account == owner), None)

    def names_below(self, domain: str) -> list[str]:
        """Return the names directly below a domain that an edge has, or a tunnel, or that its wildcard leaves alone."""
        tunnels = (it.name for it in self._below.get(domain, {}).values() if self.may_serve(it.account, it.name))
        withheld = (it.domain for it in self._held_under(f"*.{domain}") if self.is_withheld(it.domain))
        return sorted({*filter(self.edge_at_host, self.edge_index.hosts_below(domain)), *tunnels, *withheld})

    def is_withheld(self, name: str) -> bool:
        """Tell whether the wildcard edge above a name may not answer for it, since another account has proved it."""
        wildcard = self.edge_at_host(f"*.{name.partition('.')[2]}")
        return wildcard is not None and not self.may_serve(wildcard.account, name)

    def members(self, group: ServedBackend) -> list[tuple[ServedTunnel, Gateway]]:
        """Return the tunnels of a group whose gateways are up."""
        found = self.groups.members(group)
        return [(it, self.gateways[it.gateway]) for it in found if it.gateway in self.gateways]

    def is_online(self, group: str) -> bool:
        """Return whether a group has a tunnel whose gateway is up."""
        found = self.backends.get(group)
        return found is not None and bool(self.members(found))

    def authorities_of(self, edge: ServedEdge) -> list[ServedAuthority | None]:
        """Return the authorities whose clients an edge wants, None for one that its account does not have."""
        ids = edge.modules.mutual_tls.certificate_authority_ids if edge.modules.mutual_tls else []
        found = [self.authorities.get(id) for id in ids]
        return [it if it and it.account == edge.account else None for it in found]

    def affected_edges(self, id: str) -> frozenset[str]:
        """Return the ids of the edges for which what is known under an id matters."""
        if id in self.edges:
            return frozenset({id})
        part = self.backends.get(id) or self.authorities.get(id)
        return self.edge_index.edges_using(part.account, id) if part else frozenset()

    def affected_groups(self, id: str) -> frozenset[str]:
        """Return the ids of the backends whose tunnels what is known under an id may change."""
        if id in self.backends:
            return frozenset({id})
        own = {id: self.tunnels[id]} if id in self.tunnels else self._by_gateway.get(id, {})
        return frozenset(group for tunnel in own.values() for group in self.groups.groups_of(tunnel))

    def _add(self, fact: Record) -> frozenset[str]:
        match fact:
            case Gateway():
                self.gateways[fact.id] = fact
            case ServedTunnel():
                self.tunnels[fact.id] = fact
                self.groups.put(fact)
                for index, key in self._indexes(fact):
                    index[key][fact.id] = fact
            case ServedCertificate():
                self.certificates[fact.id] = fact
                self._of_account[fact.account][fact.id] = fact
            case ServedReservation():
                self.reservations[fact.id] = fact
                self._by_domain[fact.domain][fact.id] = fact
                self._held_below[fact.domain.partition(".")[2]][fact.id] = fact
            case ServedEdge():
                self.edges[fact.id] = fact
                self.edge_index.put(fact)
            case ServedBackend():
                self.backends[fact.id] = fact
                self.edge_index.put(fact)
                self.groups.put(fact)
            case ServedAuthority():
                self.authorities[fact.id] = fact
        return self._touched(fact)

    def _drop(self, fact: Record) -> frozenset[str]:
        touched = self._touched(fact)
        match fact:
            case Gateway():
                del self.gateways[fact.id]
            case ServedTunnel():
                del self.tunnels[fact.id]
                self.groups.drop(fact)
                for index, key in self._indexes(fact):
                    _remove(index, key, fact.id)
            case ServedCertificate():
                del self.certificates[fact.id]
                self.rejected.pop(fact.id, None)
                _remove(self._of_account, fact.account, fact.id)
            case ServedReservation():
                del self.reservations[fact.id]
                _remove(self._by_domain, fact.domain, fact.id)
                _remove(self._held_below, fact.domain.partition(".")[2], fact.id)
            case ServedEdge():
                del self.edges[fact.id]
                self.edge_index.drop(fact)
            case ServedBackend():
                del self.backends[fact.id]
                self.edge_index.drop(fact)
                self.groups.drop(fact)
            case ServedAuthority():
                del self.authorities[fact.id]
        return touched

    def _held_at(self, domain: str) -> list[ServedReservation]:
        return list(self._by_domain.get(domain, {}).values())

    def _held_under(self, host: str) -> list[ServedReservation]:
        """Return the reservations of a wildcard host and of the names directly below it; none for any other host."""
        found = self._held_below.get(host.removeprefix(domains.WILDCARD), {}) if host.startswith("*") else {}
        return list(found.values())

    def accounts_of_reservation(self, held: ServedReservation) -> frozenset[str]:
        """Return the accounts with names that a reservation stands for."""
        hosts = self.hosts_of_reservation(held)
        tunnels = (it.account for host in hosts for it in self._by_name.get(host, {}).values())
        return frozenset(it.account for host in hosts for it in self.edge_index.edges_at_host(host)).union(tunnels)

    def hosts_of_reservation(self, held: ServedReservation) -> frozenset[str]:
        """Return the served names of any account for which a reservation matters, and the wildcard above its domain."""
        if not held.domain.startswith(domains.WILDCARD):
            wildcard = f"*.{held.domain.partition('.')[2]}"
            is_covered = bool(self.edge_index.edges_at_host(wildcard))
            is_named = is_covered or held.domain in self._by_name or self.edge_index.edges_at_host(held.domain)
            own = {held.domain, wildcard} if is_covered else {held.domain} if is_named else set()
            return self.edge_index.tcp_names_at(held.domain).union(own)
        withheld = {it for it in self._by_domain if not it.startswith(domains.WILDCARD)}
        every = self._by_name.keys() | self.edge_index.all_hosts() | withheld
        return frozenset(name for name in every if host_of(name).endswith(held.domain.removeprefix("*")))

    def _indexes(self, tunnel: ServedTunnel) -> Iterable[tuple[defaultdict[str, dict[str, ServedTunnel]], str]]:
        yield self._by_gateway, tunnel.gateway
        if tunnel.name:
            yield self._by_name, tunnel.name
            yield self._by_account, tunnel.account
            yield self._below, tunnel.name.partition(".")[2]

    def _touched(self, fact: Record) -> frozenset[str]:
        match fact:
            case Gateway():
                return frozenset(tunnel.name for tunnel in self.tunnels_of_gateway(fact.id) if tunnel.name)
            case ServedTunnel():
                return frozenset({fact.name} - {""})
            case ServedCertificate():
                names = self.hosts_of_account(fact.account)
                return frozenset(name for name in names if certificate_choice.covers_any(fact, name))
            case ServedReservation():
                return self.hosts_of_reservation(fact)
            case ServedEdge():
                hosts = hosts_of(fact)
                return frozenset(it.domain for host in hosts for it in self._held_under(host)).union(hosts)
            case _:
                return frozenset()


def _at(edge: ServedEdge, port: str) -> list[str]:
    return [name for name in hosts_of(edge) if port_of(name) == port]


def _remove(index: defaultdict[str, dict[str, T]], key: str, id: str) -> None:
    del index[key][id]
    if not index[key]:
        del index[key]
