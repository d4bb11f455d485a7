"""Mutual TLS on TLS and HTTPS edges: the authorities of clients' certificates."""

from dataclasses import dataclass

from chalicelib.model.base import kinds
from chalicelib.model.base.records import References, StoredModule
from chalicelib.model.edges import edge_modules
from chalicelib.model.edges.edge_modules import EdgeModule, Memory


@dataclass(frozen=True, kw_only=True)
class MutualTlsModule(StoredModule):
    """The ids of certificate authorities. Clients must have a certificate that one of them issued."""

    certificate_authority_ids: list[str]

    AUDITED = ("enabled", "certificate_authority_ids")

    def references(self) -> References:
        return {"certificate_authority_ids": self.certificate_authority_ids}


def _read(module: MutualTlsModule) -> MutualTlsModule | None:
    return module if all(map(edge_modules.is_id, module.certificate_authority_ids)) else None


MODULE = EdgeModule(
    name="mutual_tls",
    parents=(kinds.HTTPS_EDGES, kinds.TLS_EDGES),
    stored=MutualTlsModule,
    read=_read,
    restricts_visitors=True,
    admits_ambiguous_paths=True,  # no path can bypass the module, because it checks the TLS handshake
    needs_plaintext=True,
    budget=2_100,
    memory=lambda _: Memory(),
    built_by="names.tls_contexts.build_socket",
)
