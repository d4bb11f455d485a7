"""Lists the places of the records that decide which edge or tunnel answers at an account's names. Does no I/O.

The place of a record is its primary key: `scope` and `id`. The place of a list is a partition key with the id "".
Records refer to other records, so each read can add places. A unique key is the record that makes a name unique: it
refers to the items that have the name.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from chalicelib import domains
from chalicelib.domains import WILDCARD
from chalicelib.model.accounts import accounts
from chalicelib.model.base import kinds
from chalicelib.model.edges import edges, served
from chalicelib.model.edges.backends import TunnelGroup, Weighted
from chalicelib.model.edges.served import ServedBackend, ServedEdge, ServedPart, port_of
from chalicelib.model.names import name_keys, proofs, reservations
from chalicelib.model.names.name_keys import NameKey
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving import sites
from chalicelib.model.serving.sites import ServedAddress
from chalicelib.model.tls.tls_certificates import SealedCertificate
from chalicelib.model.tunnels import gateways
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from chalicelib.storage.records import items
from chalicelib.storage.records.change_log import Place
from chalicelib.storage.records.items import Item


@dataclass(frozen=True)
class Switch:
    """The state of an account: it is switched on if `is_active`."""

    is_active: bool


Routes: TypeAlias = tuple[Item, ...]  # the stored routes of an edge, not decoded yet
Value: TypeAlias = (
    Switch
    | NameKey
    | Item
    | Routes
    | ServedEdge
    | ServedPart
    | ServedReservation
    | ServedAddress
    | ServedTunnel
    | Gateway
    | tuple[SealedCertificate, ...]
    | tuple[ServedTunnel, ...]
    | tuple[Place, ...]
)


@dataclass(frozen=True)
class Found:
    """The result of a read: the value at a place, or None. `version` changes with the value, and is "" if there is
    none.
    """

    version: str = ""
    value: Value | None = None


@dataclass(frozen=True)
class Wanted:
    """A request for all records about some hosts, ports, edges and tunnels of an account.

    `ids` are the ids of the edges and tunnels.
    """

    account: str
    hosts: frozenset[str] = frozenset()
    ports: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()


def digest(versions: Iterable[str]) -> str:
    """Return one version text for several versions. It changes if any of the versions changes."""
    return hashlib.blake2b("\n".join(versions).encode(), digest_size=8).hexdigest()


def item_place(account: str, id: str) -> Place:
    """Return the place of the item with an id in an account."""
    return Place(items.scope(account, kinds.of(id).path), id)


def certificates_place(account: str) -> Place:
    return Place(items.scope(account, kinds.TLS_CERTIFICATES.path), "")


def tunnels_place(account: str) -> Place:
    return Place(items.scope(account, kinds.TUNNELS.path), "")


def routes_place(edge: Place) -> Place:
    """Return the place of the routes of an HTTPS edge."""
    return Place(edges.routes_scope(edge.scope, edge.id), "")


def list_places(wanted: Wanted, found: Mapping[Place, Found], tunnel_domain: str) -> set[Place]:
    """Return the places of all records about the wanted hosts, ports, edges and tunnels.

    The values at these places can refer to further places. Read the places that are missing in `found`, and call this
    function again until none is missing.
    """
    walk = _Walk(wanted.account, found, tunnel_domain)
    for host in wanted.hosts:
        walk.add_host(host)
    for port in wanted.ports:
        walk.add_port(port)
    for id in wanted.ids:
        walk.add_item(id)
    return walk.places


class _Walk:
    """Collects the places of an account's records. They include places to which the values in `found` refer."""

    def __init__(self, account: str, found: Mapping[Place, Found], tunnel_domain: str) -> None:
        self.places = {Place(accounts.SCOPE, account), certificates_place(account)}
        self._account, self._found, self._tunnel_domain = account, found, tunnel_domain

    def add_host(self, host: str) -> None:
        """Add the records that decide which account owns a host, and which edge or tunnel answers there."""
        self._add_owner(host)
        hostports = name_keys.list_hostport_places(self._account, host)
        for key in self._add_keys(hostports):
            self._add_holder(key, kinds.EDGES)
        if not host.startswith(WILDCARD):
            for key in self._add_keys(self._tunnel_places(host)):
                if self._add_holder(key, [kinds.TUNNELS]):
                    self._add_restrictions_of(host)

    def add_port(self, port: str) -> None:
        """Add the tunnel and the TCP edges of a port."""
        for key in self._add_keys([name_keys.name_place(f"{self._tunnel_domain}:{port}")]):
            if self._add_holder(key, [kinds.TUNNELS]):
                self._add_addresses(key)
            for place in key.sharers:
                if kinds.TCP_EDGES.has(place.id):
                    self._add_edge(place)

    def add_item(self, id: str) -> None:
        """Add an edge or tunnel by id, with the records that it refers to."""
        place = item_place(self._account, id)
        if kinds.of(id) in kinds.EDGES:
            self._add_edge(place)
            if isinstance(edge := self._value(place), ServedEdge):
                self._add_proved_below(edge)
        elif tunnel := self._add_tunnel(place):
            if port := port_of(tunnel.name):
                self.add_port(port)
            elif tunnel.name:
                self.add_host(tunnel.name)

    def _tunnel_places(self, host: str) -> list[Place]:
        place = name_keys.name_place(host)
        return [it for it in name_keys.list_owner_places(host, self._tunnel_domain) if it == place]

    def _add_owner(self, host: str) -> None:
        self._add_keys(name_keys.list_owner_places(host, self._tunnel_domain))
        for place in name_keys.list_reservation_places(self._account, host, self._tunnel_domain, self._find_key):
            self.places.add(place)

    def _add_keys(self, places: Iterable[Place]) -> list[NameKey]:
        """Add the places of unique keys. Return those unique keys that were read already."""
        wanted = list(places)
        self.places.update(wanted)
        return [key for place in wanted if (key := self._find_key(place))]

    def _add_restrictions_of(self, host: str) -> None:
        """Add the account's reservations that cover a tunnel's host. Their domains may be unproved.

        If a reservation was read already, also add its IP policies.
        """
        covering = name_keys.list_reservation_places(self._account, host, self._tunnel_domain, self._find_key)
        if not domains.is_below(host, self._tunnel_domain):
            own = self._add_keys(name_keys.list_own_keys(self._account, host))
            covering += [place for key in own if (place := self._holder(key, kinds.RESERVED_DOMAINS))]
        for place in covering:
            self.places.add(place)
            found = self._value(place)
            if isinstance(found, ServedReservation) and found.domain in proofs.list_proving_domains(host):
                self._add_parts(sites.list_policies(found))

    def _add_addresses(self, key: NameKey) -> None:
        """Add the account's reserved addresses at the port of a tunnel, with their IP policies."""
        for place in key.list_addresses_of(self._account):
            self.places.add(place)
            if isinstance(found := self._value(place), ServedAddress):
                self._add_parts(sites.list_policies(found))

    def _add_holder(self, key: NameKey, of_kinds: Iterable[kinds.Kind]) -> bool:
        """Add the account's items of some kinds to which a unique key refers. Return whether there are any."""
        places = [place for kind in of_kinds if (place := self._holder(key, kind))]
        for place in places:
            if kinds.of(place.id) is kinds.TUNNELS:
                self._add_tunnel(place)
            else:
                self._add_edge(place)
        return bool(places)

    def _add_tunnel(self, place: Place) -> ServedTunnel | None:
        """Add a tunnel, its gateway and its IP policies. Return the tunnel if it was read already."""
        self.places.add(place)
        tunnel = self._value(place)
        if not isinstance(tunnel, ServedTunnel):
            return None
        self.places.add(Place(gateways.GATEWAYS, tunnel.gateway))
        self._add_parts(filter(kinds.IP_POLICIES.has, tunnel.ip_policies))
        return tunnel

    def _holder(self, key: NameKey, kind: kinds.Kind) -> Place | None:
        found = key.holder_of(kind)
        return found if found and found == Place(items.scope(self._account, kind.path), found.id) else None

    def _add_edge(self, place: Place) -> None:
        """Add an edge with all records that it refers to.

        An HTTPS edge is added after its routes were read, because it is decoded together with them.
        """
        if kinds.of(place.id) is kinds.HTTPS_EDGES:
            routes = routes_place(place)
            self.places.add(routes)
            if routes not in self._found:
                return
            self._add_parts(served.list_parts_of(it for it in self._entries(routes) if isinstance(it, Item)))
        if place in self.places:
            return
        self.places.add(place)
        if isinstance(edge := self._value(place), ServedEdge):
            self._add_parts(edge.named)
            for host in edge.hosts:
                self._add_owner_of(host)

    def _add_owner_of(self, name: str) -> None:
        """Add the records that decide which account owns a name of an edge. For host:port, also add the port."""
        host, _, port = name.partition(":")
        self._add_owner(host)
        if port:
            address = name_keys.name_place(name)
            self.places.add(address)
            self.add_port(port)
            for key in self._add_keys([address]):
                self.places.update(it for it in key.sharers if kinds.RESERVED_ADDRS.has(it.id))

    def _add_proved_below(self, edge: ServedEdge) -> None:
        """Add the list of domains that are proved one label below an edge's wildcards.

        If the list was read already, also add the records to which it refers.
        """
        for host in edge.hosts:
            if host.startswith(WILDCARD) and not domains.is_below(host, self._tunnel_domain):
                below = Place(reservations.proved_scope(host.removeprefix(WILDCARD)), "")
                self.places.add(below)
                self.places.update(it for it in self._entries(below) if isinstance(it, Place))

    def _add_parts(self, ids: Iterable[str]) -> None:
        """Add the backends, certificate authorities and IP policies with these ids.

        A weighted backend also adds its child backends. A tunnel group adds the account's labelled tunnels.
        """
        for id in ids:
            place = item_place(self._account, id)
            if kinds.of(id) is kinds.OTHER_BACKENDS or place in self.places:
                continue
            self.places.add(place)
            match self._value(place):
                case ServedBackend(value=Weighted(backends=shared)):
                    self._add_parts(shared)
                case ServedBackend(value=TunnelGroup()):
                    self._add_tunnels()

    def _add_tunnels(self) -> None:
        place = tunnels_place(self._account)
        self.places.add(place)
        found = (it for it in self._entries(place) if isinstance(it, ServedTunnel))
        self.places.update(Place(gateways.GATEWAYS, it.gateway) for it in found)

    def _entries(self, place: Place) -> tuple[object, ...]:
        """Return the entries of the list at a place. Return () if the list has not been read."""
        value = self._value(place)
        return value if isinstance(value, tuple) else ()

    def _find_key(self, place: Place) -> NameKey | None:
        value = self._value(place)
        return value if isinstance(value, NameKey) else None

    def _value(self, place: Place) -> Value | None:
        found = self._found.get(place)
        return found.value if found else None
