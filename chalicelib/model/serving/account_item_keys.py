"""Lists the item keys of the records that decide which edge or tunnel answers at an account's names. Does no I/O.

The item key of a record is its primary key: `scope` and `id`. The item key of a list consists of a partition key and
the id "". A record can refer to further records, so a read can reveal more item keys. A unique key is the record that
makes a name unique: it refers to the items that have the name.
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
from chalicelib.storage.records.change_log import ItemKey
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
    | tuple[ItemKey, ...]
)


@dataclass(frozen=True)
class StoredValue:
    """The result of a read: the value at an item key, or None.

    `version` is a text that changes whenever the value changes. It is "" if the value is None.
    """

    version: str = ""
    value: Value | None = None


StoredValues: TypeAlias = Mapping[ItemKey, StoredValue]


@dataclass(frozen=True)
class RecordsRequest:
    """A request for all records about some hosts, ports, edges and tunnels of an account.

    `ids` are the ids of the edges and tunnels.
    """

    account: str
    hosts: frozenset[str] = frozenset()
    ports: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()


def digest(versions: Iterable[str]) -> str:
    """Return one version text for several versions. The text changes if any of the versions changes."""
    return hashlib.blake2b("\n".join(versions).encode(), digest_size=8).hexdigest()


def item_key_in(account: str, id: str) -> ItemKey:
    """Return the item key of an account's item, given its id."""
    return ItemKey(items.scope(account, kinds.identify(id).path), id)


def certificates_item_key(account: str) -> ItemKey:
    return ItemKey(items.scope(account, kinds.TLS_CERTIFICATES.path), "")


def tunnels_item_key(account: str) -> ItemKey:
    return ItemKey(items.scope(account, kinds.TUNNELS.path), "")


def routes_item_key(edge: ItemKey) -> ItemKey:
    """Return the item key of the routes of an HTTPS edge."""
    return ItemKey(edges.routes_scope(edge.scope, edge.id), "")


def list_item_keys(request: RecordsRequest, values: StoredValues, tunnel_domain: str) -> set[ItemKey]:
    """Return the item keys of all records about the wanted hosts, ports, edges and tunnels.

    `values` are the values that were read until now. They can refer to further item keys. Read the returned item keys
    that `values` lacks, and call this function again, until `values` lacks none.
    """
    walk = _Walk(request.account, values, tunnel_domain)
    for host in request.hosts:
        walk.add_host(host)
    for port in request.ports:
        walk.add_port(port)
    for id in request.ids:
        walk.add_item(id)
    return walk.item_keys


class _Walk:
    """Collects the item keys of an account's records, and of the records to which the `values` read so far refer."""

    def __init__(self, account: str, values: StoredValues, tunnel_domain: str) -> None:
        self.item_keys = {ItemKey(accounts.SCOPE, account), certificates_item_key(account)}
        self._account, self._values, self._tunnel_domain = account, values, tunnel_domain

    def add_host(self, host: str) -> None:
        """Add the records that decide which account owns a host, and which edge or tunnel answers there."""
        self._add_owner(host)
        hostports = name_keys.list_hostport_item_keys(self._account, host)
        for key in self._add_keys(hostports):
            self._add_key_owner(key, kinds.EDGES)
        if not host.startswith(WILDCARD):
            for key in self._add_keys(self._tunnel_item_keys(host)):
                if self._add_key_owner(key, [kinds.TUNNELS]):
                    self._add_restrictions_of(host)

    def add_port(self, port: str) -> None:
        """Add the tunnel and the TCP edges of a port."""
        for key in self._add_keys([name_keys.name_item_key(f"{self._tunnel_domain}:{port}")]):
            if self._add_key_owner(key, [kinds.TUNNELS]):
                self._add_addresses(key)
            for item_key in key.sharers:
                if kinds.TCP_EDGES.has(item_key.id):
                    self._add_edge(item_key)

    def add_item(self, id: str) -> None:
        """Add an edge or tunnel by id, with the records that it refers to."""
        item_key = item_key_in(self._account, id)
        if kinds.identify(id) in kinds.EDGES:
            self._add_edge(item_key)
            if isinstance(edge := self._value(item_key), ServedEdge):
                self._add_proved_below(edge)
        elif tunnel := self._add_tunnel(item_key):
            if port := port_of(tunnel.name):
                self.add_port(port)
            elif tunnel.name:
                self.add_host(tunnel.name)

    def _tunnel_item_keys(self, host: str) -> list[ItemKey]:
        item_key = name_keys.name_item_key(host)
        return [item_key] if item_key in name_keys.list_owner_item_keys(host, self._tunnel_domain) else []

    def _add_owner(self, host: str) -> None:
        self._add_keys(name_keys.list_owner_item_keys(host, self._tunnel_domain))
        for item_key in name_keys.list_reservation_item_keys(self._account, host, self._tunnel_domain, self._find_key):
            self.item_keys.add(item_key)

    def _add_keys(self, item_keys: Iterable[ItemKey]) -> list[NameKey]:
        """Add the item keys of unique keys. Return those unique keys that were read already."""
        key_list = list(item_keys)
        self.item_keys.update(key_list)
        return [key for item_key in key_list if (key := self._find_key(item_key))]

    def _add_restrictions_of(self, host: str) -> None:
        """Add the account's reservations that cover a tunnel's host. Their domains may be unproved.

        If a reservation was read already, also add its IP policies.
        """
        covering = name_keys.list_reservation_item_keys(self._account, host, self._tunnel_domain, self._find_key)
        if not domains.is_below(host, self._tunnel_domain):
            keys = self._add_keys(name_keys.list_own_keys(self._account, host))
            covering += [item_key for key in keys if (item_key := self._find_key_owner(key, kinds.RESERVED_DOMAINS))]
        for item_key in covering:
            self.item_keys.add(item_key)
            reservation = self._value(item_key)
            if isinstance(reservation, ServedReservation) and reservation.domain in proofs.list_proving_domains(host):
                self._add_parts(sites.list_policies(reservation))

    def _add_addresses(self, key: NameKey) -> None:
        """Add the account's reserved addresses at the port of a tunnel, with their IP policies."""
        for item_key in key.list_addresses_of(self._account):
            self.item_keys.add(item_key)
            if isinstance(address := self._value(item_key), ServedAddress):
                self._add_parts(sites.list_policies(address))

    def _add_key_owner(self, key: NameKey, of_kinds: Iterable[kinds.Kind]) -> bool:
        """Add the item of the account that owns a unique key, if it is of one of some kinds. Return whether it is."""
        item_keys = [item_key for kind in of_kinds if (item_key := self._find_key_owner(key, kind))]
        for item_key in item_keys:
            if kinds.identify(item_key.id) is kinds.TUNNELS:
                self._add_tunnel(item_key)
            else:
                self._add_edge(item_key)
        return bool(item_keys)

    def _add_tunnel(self, item_key: ItemKey) -> ServedTunnel | None:
        """Add a tunnel, its gateway and its IP policies. Return the tunnel if it was read already."""
        self.item_keys.add(item_key)
        tunnel = self._value(item_key)
        if not isinstance(tunnel, ServedTunnel):
            return None
        self.item_keys.add(ItemKey(gateways.GATEWAYS, tunnel.gateway))
        self._add_parts(filter(kinds.IP_POLICIES.has, tunnel.ip_policies))
        return tunnel

    def _find_key_owner(self, key: NameKey, kind: kinds.Kind) -> ItemKey | None:
        owner = key.find_owner_item(kind)
        return owner if owner and owner == ItemKey(items.scope(self._account, kind.path), owner.id) else None

    def _add_edge(self, item_key: ItemKey) -> None:
        """Add an edge with all records that it refers to.

        An HTTPS edge is added after its routes were read, because an HTTPS edge is decoded together with its routes.
        """
        if kinds.identify(item_key.id) is kinds.HTTPS_EDGES:
            routes = routes_item_key(item_key)
            self.item_keys.add(routes)
            if routes not in self._values:
                return
            self._add_parts(served.list_parts_of(entry for entry in self._entries(routes) if isinstance(entry, Item)))
        if item_key in self.item_keys:
            return
        self.item_keys.add(item_key)
        if isinstance(edge := self._value(item_key), ServedEdge):
            self._add_parts(edge.named)
            for host in edge.hosts:
                self._add_owner_of(host)

    def _add_owner_of(self, name: str) -> None:
        """Add the records that decide which account owns a name of an edge. For host:port, also add the port."""
        host, _, port = name.partition(":")
        self._add_owner(host)
        if port:
            address = name_keys.name_item_key(name)
            self.item_keys.add(address)
            self.add_port(port)
            for key in self._add_keys([address]):
                self.item_keys.update(sharer for sharer in key.sharers if kinds.RESERVED_ADDRS.has(sharer.id))

    def _add_proved_below(self, edge: ServedEdge) -> None:
        """Add the list of domains that are proved one label below an edge's wildcards.

        If the list was read already, also add the records to which it refers.
        """
        for host in edge.hosts:
            if host.startswith(WILDCARD) and not domains.is_below(host, self._tunnel_domain):
                below = ItemKey(reservations.proved_scope(host.removeprefix(WILDCARD)), "")
                self.item_keys.add(below)
                self.item_keys.update(entry for entry in self._entries(below) if isinstance(entry, ItemKey))

    def _add_parts(self, ids: Iterable[str]) -> None:
        """Add the backends, certificate authorities and IP policies with these ids.

        A weighted backend also adds its child backends. A tunnel group adds the account's labelled tunnels.
        """
        for id in ids:
            item_key = item_key_in(self._account, id)
            if kinds.identify(id) is kinds.OTHER_BACKENDS or item_key in self.item_keys:
                continue
            self.item_keys.add(item_key)
            match self._value(item_key):
                case ServedBackend(value=Weighted(backends=shared)):
                    self._add_parts(shared)
                case ServedBackend(value=TunnelGroup()):
                    self._add_tunnels()

    def _add_tunnels(self) -> None:
        item_key = tunnels_item_key(self._account)
        self.item_keys.add(item_key)
        labelled_tunnels = (entry for entry in self._entries(item_key) if isinstance(entry, ServedTunnel))
        self.item_keys.update(ItemKey(gateways.GATEWAYS, tunnel.gateway) for tunnel in labelled_tunnels)

    def _entries(self, item_key: ItemKey) -> tuple[object, ...]:
        """Return the entries of the list at an item key. Return () if the list has not been read."""
        value = self._value(item_key)
        return value if isinstance(value, tuple) else ()

    def _find_key(self, item_key: ItemKey) -> NameKey | None:
        value = self._value(item_key)
        return value if isinstance(value, NameKey) else None

    def _value(self, item_key: ItemKey) -> Value | None:
        stored = self._values.get(item_key)
        return stored.value if stored else None
