"""Compression of the responses of HTTPS edge routes."""

from dataclasses import dataclass

from chalicelib.model.base import kinds
from chalicelib.model.base.records import StoredModule
from chalicelib.model.edges.edge_modules import EdgeModule, Memory


@dataclass(frozen=True, kw_only=True)
class CompressionModule(StoredModule):
    """Compression of responses. It has no options."""

    AUDITED = ("enabled",)


MODULE = EdgeModule(
    name="compression",
    parents=(kinds.HTTPS_EDGE_ROUTES,),
    stored=CompressionModule,
    read=lambda module: module,
    restricts_visitors=False,
    admits_ambiguous_paths=True,
    needs_plaintext=True,
    budget=100,
    memory=lambda _: Memory(entry_kib=1.0),
    configures_route="filters.compression.enable",
)
