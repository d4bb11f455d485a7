"""Edges, backends, authorities and IP policies as the live edge serves them, with only enabled modules.

These values have no secrets. A malformed record is never ignored: the edge that needs it has an error and is closed to
all traffic.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from chalicelib.model.base import kinds, records
from chalicelib.model.base.kinds import Kind
from chalicelib.model.base.records import StoredModule
from chalicelib.model.edges.backends import HttpResponse, TunnelGroup, Weighted
from chalicelib.model.edges.edge_modules import is_id
from chalicelib.model.edges.edges import HttpsEdge, Route
from chalicelib.model.edges.enforced.enforced_modules import NO_MODULES
from chalicelib.model.edges.enforced.enforced_modules import Modules as Modules
from chalicelib.model.edges.ip_policies import ServedPolicy
from chalicelib.model.edges.modules.tls_termination import TlsEnd
from chalicelib.model.names import listed_edges
from chalicelib.model.tls.tls_certificates import ClientAuthority
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item

UNREADABLE = "The stored records of the edge are malformed."
_HTTPS_PORT = ":443"
_HOSTPORT = re.compile(r"[a-z0-9.*-]+:[0-9]{1,5}")
_BACKENDS: Mapping[Kind, type[HttpResponse | TunnelGroup | Weighted]] = {
    kinds.HTTP_RESPONSE_BACKENDS: HttpResponse,
    kinds.TUNNEL_GROUPS: TunnelGroup,
    kinds.WEIGHTED_BACKENDS: Weighted,
}


@dataclass(frozen=True)
class ServedRoute:
    """A route of an HTTPS edge."""

    id: str
    match_type: str
    match: str
    modules: Modules = NO_MODULES


@dataclass(frozen=True)
class ServedEdge:
    """An edge of any kind. Each change of the edge or of one of its routes raises `revision`.

    At the TCP hostports in `proxied`, backends receive the PROXY protocol, because the reserved addresses require it.
    `error` gives the reason why the edge is closed, for example UNREADABLE, or is "".
    """

    account: str
    id: str
    revision: int
    hostports: tuple[str, ...]
    terminate_at: TlsEnd = "edge"
    modules: Modules = NO_MODULES
    routes: tuple[ServedRoute, ...] = ()
    proxied: frozenset[str] = frozenset()
    error: str = ""
    keep_headers: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        return kinds.identify(self.id)

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Return the names of the edge: hosts on port 443, or host:port for a TCP edge."""
        names = tuple(dict.fromkeys(self.hostports))
        if self.kind is kinds.TCP_EDGES:
            return names
        return tuple(hostport.removesuffix(_HTTPS_PORT) for hostport in names if hostport.endswith(_HTTPS_PORT))

    @cached_property
    def is_stream(self) -> bool:
        """Return whether the edge forwards the bytes of connections without reading requests."""
        return self.kind is not kinds.HTTPS_EDGES or self.terminate_at == "upstream"

    @property
    def named(self) -> frozenset[str]:
        """Return the ids of all backends, authorities and IP policies that the edge's modules and routes name."""
        return frozenset(
            id
            for modules in (self.modules, *(route.modules for route in self.routes))
            for id in _referenced_ids(modules)
        )


@dataclass(frozen=True)
class ServedBackend:
    """A backend, which answers traffic. `value` is None if its record is malformed."""

    account: str
    id: str
    value: HttpResponse | TunnelGroup | Weighted | None


@dataclass(frozen=True)
class ServedAuthority:
    """An authority that an edge with mutual TLS trusts. `pem` is its certificate, "" if the record is malformed."""

    account: str
    id: str
    pem: str


ServedPart: TypeAlias = ServedBackend | ServedAuthority | ServedPolicy


def decode_edge(item: Item, routes: Iterable[Item] = ()) -> ServedEdge:
    """Return the edge that an item stores, with its routes.

    If the item or a route is malformed, the edge has an `error`, and its hostports are from its unique keys.
    """
    try:
        stored = records.decode(HttpsEdge, item)
        _require(bool(item.body) and all(map(_is_hostport, stored.hostports)), "hostports")
        served_routes = tuple(_decode_route(route) for route in routes if route.body or not route.modules)
        modules = Modules.of(item.modules, kinds.identify(item.id))
    except MalformedRecord:
        hostports = tuple(filter(_is_hostport, listed_edges.hostports_from_keys(item)))
        return ServedEdge(item.account, item.id, item.revision, hostports, error=UNREADABLE)
    hostports, keep_headers = tuple(stored.hostports), tuple(stored.keep_headers)
    edge = ServedEdge(item.account, item.id, item.revision, hostports, stored.terminate_at, modules, served_routes)
    return replace(edge, keep_headers=keep_headers)


def host_of(name: str) -> str:
    """Return the host of a name, which is a host or host:port."""
    return name.partition(":")[0]


def port_of(name: str) -> str:
    """Return the port of a host:port name, or "" for a host."""
    return name.partition(":")[2]


def decode_part(item: Item) -> ServedPart:
    """Return the backend, authority or IP policy that an item stores."""
    try:
        return _PART_DECODERS.get(kinds.identify(item.id), _decode_backend)(item)
    except MalformedRecord:
        return empty_part(item.account, item.id)


def empty_part(account: str, id: str) -> ServedPart:
    """Return the part of an edge for a malformed record: a backend, authority or IP policy without a value."""
    if kinds.identify(id) is kinds.IP_POLICIES:
        return ServedPolicy(account, id, None)
    is_ca = kinds.identify(id) is kinds.CERTIFICATE_AUTHORITIES
    return ServedAuthority(account, id, "") if is_ca else ServedBackend(account, id, None)


def _decode_backend(item: Item) -> ServedBackend:
    value = records.decode(_BACKENDS[kinds.identify(item.id)], item)
    _require(bool(item.body), "body")
    if isinstance(value, Weighted):
        _require(all(map(is_id, value.backends)), "backends")
    return ServedBackend(item.account, item.id, value)


def _decode_authority(item: Item) -> ServedAuthority:
    return ServedAuthority(item.account, item.id, records.decode(ClientAuthority, item).ca_pem)


# The decoders of the parts of an edge, by kind. Parts of all other kinds are backends.
_PART_DECODERS: Mapping[Kind, Callable[[Item], ServedPart]] = {
    kinds.CERTIFICATE_AUTHORITIES: _decode_authority,
    kinds.IP_POLICIES: ServedPolicy.of,
}


def _decode_route(item: Item) -> ServedRoute:
    stored = records.decode(Route, item)
    return ServedRoute(item.id, stored.match_type, stored.match, Modules.of(item.modules, kinds.HTTPS_EDGE_ROUTES))


def list_parts_of(routes: Iterable[Item]) -> list[str]:
    """Return the ids of the backends and IP policies that the modules of routes name."""
    id_groups = (
        _referenced_ids(Modules.of(route.modules, kinds.HTTPS_EDGE_ROUTES)) for route in routes if not route.malformed
    )
    return list(dict.fromkeys(id for ids in id_groups for id in ids))


def _referenced_ids(modules: Modules) -> Iterator[str]:
    for value in modules.values.values():
        if isinstance(value, StoredModule):
            yield from (id for ids in value.references().values() for id in ids)


def _require(is_whole: bool, field: str) -> None:
    if not is_whole:
        raise MalformedRecord("ServedEdge", field, "is malformed")


def _is_hostport(value: object) -> bool:
    return isinstance(value, str) and bool(_HOSTPORT.fullmatch(value))
