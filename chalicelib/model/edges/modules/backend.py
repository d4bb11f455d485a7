"""The backend of TLS and TCP edges and of HTTPS edge routes."""

from dataclasses import dataclass

from chalicelib.model.base import kinds
from chalicelib.model.base.records import References, StoredModule
from chalicelib.model.edges import edge_modules
from chalicelib.model.edges.edge_modules import EdgeModule, Memory


@dataclass(frozen=True, kw_only=True)
class BackendModule(StoredModule):
    """The id of the backend that answers traffic, or None."""

    backend_id: str | None = None

    AUDITED = ("enabled", "backend_id")

    def references(self) -> References:
        return {"backend_id": [self.backend_id] if self.backend_id else []}


def _read(module: BackendModule) -> BackendModule | None:
    return module if module.backend_id is None or edge_modules.is_id(module.backend_id) else None


MODULE = EdgeModule(
    name="backend",
    parents=(kinds.HTTPS_EDGE_ROUTES, kinds.TLS_EDGES, kinds.TCP_EDGES),
    stored=BackendModule,
    read=_read,
    restricts_visitors=False,
    admits_ambiguous_paths=True,
    needs_plaintext=False,
    budget=300,
    memory=lambda _: Memory(),
    built_by="edge_routes.add_edge_hosts",
)
