"""Mutual TLS on TLS edges (SPEC 2.9) and HTTPS edges: the authorities of clients' certificates."""

from typing import Annotated, Any

from chalicelib.http import messages
from chalicelib.http.endpoints import Call
from chalicelib.http.errors import Conflict, UnknownReference
from chalicelib.http.module import Enabled, Module
from chalicelib.model.edges.edges import HttpsEdge
from chalicelib.model.edges.modules.mutual_tls import MutualTlsModule
from chalicelib.model.edges.modules.tls_termination import UPSTREAM
from chalicelib.schema.fields import Ref
from chalicelib.schema.rules import After, entries, id_of
from chalicelib.storage.records.items import Item


def _reject_duplicates(ids: list[str]) -> list[str]:
    if len(set(ids)) < len(ids):
        raise ValueError("must not name an authority twice")
    return ids


class MutualTls(Enabled):
    """Accepts only clients with a certificate of one of the named authorities."""

    certificate_authority_ids: Annotated[
        list[Annotated[str, id_of("certificate_authority_ids")]],
        entries(1, 10),
        After(_reject_duplicates, {"uniqueItems": True}),
    ]
    """The authorities that the client's TLS certificate is checked against."""


class ShownMutualTls(Enabled):
    """Accepts only clients with a certificate of one of the named authorities."""

    certificate_authorities: list[Ref]
    """The authorities that the client's TLS certificate is checked against."""


class HttpsMutualTls(MutualTls):
    """Accepts only clients with a certificate of one of the named authorities. TLS must end at the edge."""


class ShownHttpsMutualTls(ShownMutualTls):
    """Accepts only clients with a certificate of one of the named authorities."""


def _build_response(module: MutualTlsModule, _edge: Item, call: Call) -> dict[str, Any]:
    refs = [messages.ref(call.base_url, id) for id in module.certificate_authority_ids]
    return {"enabled": module.enabled, "certificate_authorities": refs}


def _find_conflicts(request: MutualTls | None, edge: Item) -> dict[str, str]:
    """Return the validation errors of mutual TLS on an edge where TLS ends upstream.

    If `request` is None, the request does not change the module, and the stored module is checked.
    """
    stored = edge.modules.get("mutual_tls")
    enabled = request.enabled if request else stored is not None and MutualTlsModule.of(stored).enabled
    is_upstream = HttpsEdge.of(edge.body).terminate_at == UPSTREAM
    return {"enabled": "must be false if TLS ends upstream"} if enabled and is_upstream else {}


MODULES = tuple(
    Module(
        path=path,
        shape=shape,
        stored=MutualTlsModule,
        shows=shows,
        to_response=_build_response,
        conflicts=conflicts,
        errors=(UnknownReference, Conflict),
    )
    for path, shape, shows, conflicts in (
        ("/edges/https/{edge_id}/mutual_tls", HttpsMutualTls, ShownHttpsMutualTls, _find_conflicts),
        ("/edges/tls/{id}/mutual_tls", MutualTls, ShownMutualTls, None),
    )
)
