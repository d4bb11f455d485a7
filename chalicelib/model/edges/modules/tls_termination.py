"""TLS termination on HTTPS edges: the TLS versions that an edge accepts."""

from dataclasses import dataclass
from typing import Final, Literal

from chalicelib.model.base import kinds
from chalicelib.model.base.records import StoredModule
from chalicelib.model.edges.edge_modules import EdgeModule, Memory

TlsEnd = Literal["edge", "upstream"]  # an HTTPS edge's field `terminate_at`: where TLS ends
EDGE: Final = "edge"  # the default of an edge's `terminate_at`
UPSTREAM: Final = "upstream"
_VERSIONS = (None, "", "1.0", "1.1", "1.2", "1.3")


@dataclass(frozen=True, kw_only=True)
class TlsTerminationModule(StoredModule):
    """The lowest TLS version that an edge accepts, None for a safe default.

    The field `terminate_at` of the edge, not this module, says where TLS ends.
    """

    min_version: str | None = None

    AUDITED = ("enabled", "min_version")


MODULE = EdgeModule(
    name="tls_termination",
    parents=(kinds.HTTPS_EDGES,),
    stored=TlsTerminationModule,
    read=lambda module: module if module.min_version in _VERSIONS else None,
    restricts_visitors=False,
    admits_ambiguous_paths=True,
    needs_plaintext=False,
    budget=150,
    memory=lambda _: Memory(),
    built_by="names.tls_contexts.build_socket",
)
