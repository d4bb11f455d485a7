"""Edges, backends and authorities as the live edge serves them: what is enabled of their modules, and no secret."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib.model import kinds
from chalicelib.model.backends import HttpResponse, TunnelGroup, Weighted
from chalicelib.model.edges import HttpsEdge, Route
from chalicelib.model.kinds import Kind
from chalicelib.model.modules import Backend, MutualTls, Place, TlsTermination, UserAgentFilter
from chalicelib.model.tls_certificates import ClientAuthority
from chalicelib.storage.items import Item

_ENFORCED = frozenset({"backend", "mutual_tls", "tls_termination", "user_agent_filter"})
_BACKENDS: Mapping[Kind, type[HttpResponse | TunnelGroup | Weighted]] = {
    kinds.HTTP_RESPONSE_BACKENDS: HttpResponse,
    kinds.TUNNEL_GROUPS: TunnelGroup,
    kinds.WEIGHTED_BACKENDS: Weighted,
}


@dataclass(frozen=True)
class Modules:
    """The modules of an edge or a route that are enabled, None for one that is not.

    `unenforced` are the names of those that are enabled and that the live edge cannot enforce: what has one is closed.
    """

    backend: Backend | None = None
    mutual_tls: MutualTls | None = None
    tls_termination: TlsTermination | None = None
    user_agent_filter: UserAgentFilter | None = None
    unenforced: tuple[str, ...] = ()

    @staticmethod
    def of(records: Mapping[str, Mapping[str, Any]]) -> "Modules":
        """Return the enabled ones of the stored modules of an item."""
        enabled = {name: record for name, record in records.items() if record.get("enabled") is not False}
        return Modules(
            Backend.of(enabled["backend"]) if "backend" in enabled else None,
            MutualTls.of(enabled["mutual_tls"]) if "mutual_tls" in enabled else None,
            TlsTermination.of(enabled["tls_termination"]) if "tls_termination" in enabled else None,
            UserAgentFilter.of(enabled["user_agent_filter"]) if "user_agent_filter" in enabled else None,
            tuple(sorted(enabled.keys() - _ENFORCED)),
        )


@dataclass(frozen=True)
class ServedRoute:
    """A route of an HTTPS edge."""

    id: str
    match_type: str
    match: str
    modules: Modules = Modules()


@dataclass(frozen=True)
class ServedEdge:
    """An edge of any kind, with its routes if it is one of HTTPS. Each change of any part raises its `revision`.

    Of `telling`, hostports of TCP, the reserved address says that what is there reads who the visitor is.
    """

    account: str
    id: str
    revision: int
    hostports: tuple[str, ...]
    terminate_at: Place = "edge"
    modules: Modules = Modules()
    routes: tuple[ServedRoute, ...] = ()
    telling: frozenset[str] = frozenset()

    @property
    def kind(self) -> Kind:
        return kinds.of(self.id)

    @property
    def named(self) -> frozenset[str]:
        """Return the ids of the backends and authorities that its modules name, and those of its routes."""
        return frozenset(id for modules in (self.modules, *(it.modules for it in self.routes)) for id in _ids(modules))


@dataclass(frozen=True)
class ServedBackend:
    """A backend, which answers traffic. The tunnels of a group are those online whose labels carry the group's."""

    account: str
    id: str
    value: HttpResponse | TunnelGroup | Weighted


@dataclass(frozen=True)
class ServedAuthority:
    """An authority that an edge with mutual TLS believes; `pem` is its certificate."""

    account: str
    id: str
    pem: str


def edge(item: Item, routes: Iterable[Item] = ()) -> ServedEdge:
    """Return the edge that an item holds, with the routes of other items."""
    stored = HttpsEdge.of(item.body)
    made = tuple(_route(route) for route in routes if route.body)
    hostports, modules = tuple(stored.hostports), Modules.of(item.modules)
    place: Place = "upstream" if stored.terminate_at == "upstream" else "edge"
    return ServedEdge(item.account, item.id, item.revision, hostports, place, modules, made)


def backend(item: Item) -> ServedBackend:
    """Return the backend that an item holds."""
    return ServedBackend(item.account, item.id, _BACKENDS[kinds.of(item.id)].of(item.body))


def authority(item: Item) -> ServedAuthority:
    """Return the authority that an item holds."""
    return ServedAuthority(item.account, item.id, ClientAuthority.of(item.body).ca_pem)


def _ids(modules: Modules) -> Iterator[str]:
    if modules.backend and modules.backend.backend_id:
        yield modules.backend.backend_id
    if modules.mutual_tls:
        yield from modules.mutual_tls.certificate_authority_ids


def _route(item: Item) -> ServedRoute:
    stored = Route.of(item.body)
    return ServedRoute(item.id, stored.match_type, stored.match, Modules.of(item.modules))
