"""The records of one account that decide which edge or tunnel answers at some of its names. This file does no I/O."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from chalicelib.model.accounts import accounts
from chalicelib.model.base import kinds
from chalicelib.model.edges import served
from chalicelib.model.edges.ip_policies import ServedPolicy
from chalicelib.model.edges.served import ServedAuthority, ServedBackend, ServedEdge, port_of
from chalicelib.model.names import name_keys, reservations
from chalicelib.model.names.name_keys import NameKey
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving import account_changes
from chalicelib.model.serving.account_item_keys import RecordsRequest, StoredValue, StoredValues, Switch, item_key_in
from chalicelib.model.serving.sites import ServedAddress
from chalicelib.model.tls.tls_certificates import SealedCertificate, ServedCertificate
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from chalicelib.storage.records.change_log import ItemKey


class _Identified(Protocol):
    @property
    def id(self) -> str: ...


R = TypeVar("R", bound=_Identified)
T = TypeVar("T")

_NOTHING = RecordsRequest("")


@dataclass(frozen=True)
class AccountRecords:
    """The records of one account that decide which edge or tunnel answers at the hosts `names`.

    `reservations` can belong to other accounts. All `gateways` are live. `addresses` are the reserved addresses of
    tunnels, by host:port. `rejected` has Envoy's errors about certificates, by certificate id. `request` is the request
    for these records, and `values` are the values that were read for it, by item key: the primary key of a record, or
    the partition key of a list. `versions` has a text for every item key, which changes whenever the value at this item
    key changes. The text is "" if there is no value.
    """

    account: str
    names: frozenset[str]
    is_active: bool = True
    tunnels: Mapping[str, ServedTunnel] = field(default_factory=dict)
    gateways: Mapping[str, Gateway] = field(default_factory=dict)
    edges: Mapping[str, ServedEdge] = field(default_factory=dict)
    backends: Mapping[str, ServedBackend] = field(default_factory=dict)
    authorities: Mapping[str, ServedAuthority] = field(default_factory=dict)
    policies: Mapping[str, ServedPolicy] = field(default_factory=dict)
    certificates: Mapping[str, ServedCertificate] = field(default_factory=dict)
    reservations: tuple[ServedReservation, ...] = ()
    addresses: Mapping[str, Sequence[ServedAddress]] = field(default_factory=dict)
    versions: Mapping[ItemKey, str] = field(default_factory=dict)
    rejected: Mapping[str, str] = field(default_factory=dict)
    request: RecordsRequest = _NOTHING
    values: StoredValues = field(default_factory=dict, repr=False)

    @staticmethod
    def of(request: RecordsRequest, values: StoredValues, rejected: Mapping[str, str]) -> "AccountRecords":
        """Return the records for a request, given all values that were read for it.

        `rejected` has Envoy's errors by certificate id. Ids of unknown certificates are ignored.
        """
        switch = values.get(ItemKey(accounts.SCOPE, request.account), StoredValue()).value
        groups = _group_values(values)
        certificates = _index_by_id(certificate.certificate for certificate in groups.list_of(SealedCertificate))
        reserved = [*groups.list_of(ServedReservation), *_reservations_of_others(request.account, values)]
        tunnels = _index_by_id(groups.list_of(ServedTunnel))
        return AccountRecords(
            request.account,
            request.hosts,
            isinstance(switch, Switch) and switch.is_active,
            tunnels,
            _index_by_id(groups.list_of(Gateway)),
            {edge.id: _add_addresses(edge, values) for edge in groups.list_of(ServedEdge)},
            _index_by_id(groups.list_of(ServedBackend)),
            _index_by_id(groups.list_of(ServedAuthority)),
            _index_by_id(groups.list_of(ServedPolicy)),
            certificates,
            tuple(sorted(reserved, key=lambda reservation: reservation.id)),
            dict(_list_addresses(tunnels.values(), values)),
            {item_key: stored.version for item_key, stored in values.items()},
            {id: error for id, error in rejected.items() if id in certificates},
            request,
            values,
        )

    def replace(self, changed: StoredValues, removed: Set[ItemKey]) -> "AccountRecords":
        """Return these records with changed values, and without the values at `removed` item keys.

        Most changes replace a few values among thousands. To save time, the groups of all other values are reused.
        """
        values = {**self.values, **changed}
        for item_key in removed:
            del values[item_key]
        former = [self.values[item_key].value for item_key in (*changed, *removed) if item_key in self.values]
        new = [stored.value for stored in changed.values()]
        if not all(map(_is_separate, (*former, *new))):
            return AccountRecords.of(self.request, values, self.rejected)
        return replace(
            self,
            edges=_replace_by_id(self.edges, former, new, ServedEdge),
            backends=_replace_by_id(self.backends, former, new, ServedBackend),
            authorities=_replace_by_id(self.authorities, former, new, ServedAuthority),
            policies=_replace_by_id(self.policies, former, new, ServedPolicy),
            versions={item_key: stored.version for item_key, stored in values.items()},
            values=values,
        )

    def extend(self, more: "AccountRecords") -> "AccountRecords":
        """Return these records together with `more` records of the account.

        `more` was read later. Records that are in both must be equal.
        """
        reserved = {reservation.id: reservation for reservation in (*self.reservations, *more.reservations)}
        first, second = self.request, more.request
        hosts, ports, ids = first.hosts | second.hosts, first.ports | second.ports, first.ids | second.ids
        request = RecordsRequest(self.account, hosts, ports, ids)
        return AccountRecords(
            self.account,
            hosts,
            more.is_active,
            {**self.tunnels, **more.tunnels},
            {**self.gateways, **more.gateways},
            {**self.edges, **more.edges},
            {**self.backends, **more.backends},
            {**self.authorities, **more.authorities},
            {**self.policies, **more.policies},
            {**self.certificates, **more.certificates},
            tuple(sorted(reserved.values(), key=lambda reservation: reservation.id)),
            {**self.addresses, **more.addresses},
            {**self.versions, **more.versions},
            self.rejected,
            request,
            {**self.values, **more.values},
        )

    def is_affected_by(self, item_key: ItemKey) -> bool:
        """Return whether the change of a record can affect these records."""
        return account_changes.is_affected(self.account, item_key, self.values)

    def find_differences(self, after: "AccountRecords", item_keys: Iterable[ItemKey]) -> set[ItemKey]:
        """Return those `item_keys` at which the value has changed between these records and later ones, `after`."""
        before, now = self.versions.get, after.versions.get
        return {item_key for item_key in item_keys if before(item_key) != now(item_key)}

    def list_lapsed(self, now: float) -> frozenset[ItemKey]:
        """Return the item keys of tunnels with a lease in their own record that ended before a Unix time.

        They must be read again: the lease may have been renewed, and the change log does not contain renewals.
        """
        ended = (tunnel for tunnel in self.tunnels.values() if tunnel.has_lapsed(now))
        return frozenset(item_key_in(tunnel.account, tunnel.id) for tunnel in ended)

    def find_next_expiry(self, now: float) -> float:
        """Return the next Unix time at which a tunnel's lease ends, or a certificate begins or ends."""
        leases = (float(tunnel.expires) for tunnel in self.tunnels.values())
        certificates = self.certificates.values()
        begins = (certificate.not_before.timestamp() for certificate in certificates)
        ends = (certificate.not_after.timestamp() for certificate in certificates)
        return min((at for at in (*leases, *begins, *ends) if at > now), default=float("inf"))


class _Values:
    """Values that were read, grouped by Python type. A list is replaced by its entries."""

    def __init__(self) -> None:
        self._by_type: defaultdict[type, list[Any]] = defaultdict(list)

    def add(self, value: object) -> None:
        self._by_type[type(value)].append(value)

    def list_of(self, of_type: type[T]) -> list[T]:
        return self._by_type.get(of_type, [])


def _group_values(stored_values: StoredValues) -> _Values:
    """Group all values and entries of lists by type. This takes one pass, because an account can have thousands."""
    values = _Values()
    for stored in stored_values.values():
        if isinstance(stored.value, tuple):
            for entry in stored.value:
                values.add(entry)
        else:
            values.add(stored.value)
    return values


def _index_by_id(values: Iterable[R]) -> dict[str, R]:
    return {value.id: value for value in values}


def _is_separate(value: object) -> bool:
    """Return whether `AccountRecords.replace` can replace a value without grouping all values again."""
    is_part = isinstance(value, ServedBackend | ServedAuthority | ServedPolicy)
    return is_part or value is None or value == () or (isinstance(value, ServedEdge) and _is_https(value))


def _replace_by_id(
    table: Mapping[str, R], former: Iterable[object], new: Iterable[object], of_type: type[R]
) -> Mapping[str, R]:
    removed_ids = {record.id for record in former if isinstance(record, of_type)}
    more = {record.id: record for record in new if isinstance(record, of_type)}
    if not (removed_ids or more):
        return table
    return {id: record for id, record in {**table, **more}.items() if id in more or id not in removed_ids}


def _is_https(edge: ServedEdge) -> bool:
    return kinds.HTTPS_EDGES.has(edge.id)


def _reservations_of_others(account: str, values: StoredValues) -> Iterator[ServedReservation]:
    """Yield reservations for the domains that other accounts have proved.

    They are made from unique keys. A proved domain's unique key is a record with the id of the account that proved it.
    """
    for item_key, stored in values.items():
        if not isinstance(key := stored.value, NameKey) or key.account == account:
            continue
        kind, _, domain = item_key.scope.partition("#")
        if kind == reservations.PROVED_DOMAIN:
            yield ServedReservation(key.account, key.owner_id, domain, True)


def _list_addresses(
    tunnels: Iterable[ServedTunnel], values: StoredValues
) -> Iterator[tuple[str, Sequence[ServedAddress]]]:
    """Yield the names (host:port) of TCP tunnels, with the reserved addresses at that port."""
    for tunnel in tunnels:
        if tunnel.proto == "tcp":
            key = values.get(name_keys.name_item_key(tunnel.name), StoredValue()).value
            yield tunnel.name, _addresses_of(key, tunnel.account, values) if isinstance(key, NameKey) else []


def _addresses_of(key: NameKey, account: str, values: StoredValues) -> list[ServedAddress]:
    addresses = (values.get(item_key, StoredValue()).value for item_key in key.list_addresses_of(account))
    return [address for address in addresses if isinstance(address, ServedAddress)]


def _add_addresses(edge: ServedEdge, values: StoredValues) -> ServedEdge:
    """Return a TCP edge with the `proxy_protocol` of its reserved addresses.

    If the record of an address is malformed, the edge refuses all visitors.
    """
    if _is_https(edge):
        return edge
    proxied: set[str] = set()
    ports = list(filter(port_of, edge.hosts))
    for name in ports:
        key = values.get(name_keys.name_item_key(name), StoredValue()).value
        addresses = _addresses_of(key, edge.account, values) if isinstance(key, NameKey) else []
        if any(address.proxy_protocol is None for address in addresses):
            return replace(edge, error=served.UNREADABLE)
        proxied |= {name} if any(address.proxy_protocol for address in addresses) else set()
    return replace(edge, proxied=frozenset(proxied)) if ports else edge
