"""Mutual TLS on TLS edges (SPEC 2.9) and HTTPS edges: the authorities that vouch for the clients' certificates."""

from typing import Annotated, Any

from chalicelib.http import messages
from chalicelib.http.endpoints import Call
from chalicelib.http.errors import Conflict, UnknownReference
from chalicelib.http.module import Enabled, Module
from chalicelib.model import modules
from chalicelib.model.edges import HttpsEdge
from chalicelib.model.modules import UPSTREAM
from chalicelib.schema.fields import Ref
from chalicelib.schema.rules import After, entries, id_of
from chalicelib.storage.items import Item


def _distinct(ids: list[str]) -> list[str]:
    if len(set(ids)) < len(ids):
        raise ValueError("must not name an authority twice")
    return ids


class MutualTls(Enabled):
    """Lets only clients with a certificate of these authorities connect."""

    certificate_authority_ids: Annotated[
        list[Annotated[str, id_of("certificate_authority_ids")]],
        entries(1, 10),
        After(_distinct, {"uniqueItems": True}),
    ]
    """Authorities used to validate the TLS client certificate of the connection initiator."""


class ShownMutualTls(Enabled):
    """Lets only clients with a certificate of these authorities connect."""

    certificate_authorities: list[Ref]
    """Authorities used to validate the TLS client certificate of the connection initiator."""


class HttpsMutualTls(MutualTls):
    """Lets only clients with a certificate of these authorities connect; not where TLS is terminated upstream."""


class ShownHttpsMutualTls(ShownMutualTls):
    """Lets only clients with a certificate of these authorities connect."""


def _response(module: modules.MutualTlsModule, _holder: Item, call: Call) -> dict[str, Any]:
    refs = [messages.ref(call.base_url, id) for id in module.certificate_authority_ids]
    return {"enabled": module.enabled, "certificate_authorities": refs}


def _conflicts(request: MutualTls | None, edge: Item) -> dict[str, str]:
    """Return the validation errors of a module, requested or stored, where its edge does not see the handshakes."""
    stored = edge.modules.get("mutual_tls")
    enabled = request.enabled if request else stored is not None and modules.MutualTlsModule.of(stored).enabled
    is_upstream = HttpsEdge.of(edge.body).terminate_at == UPSTREAM
    return {"enabled": "must be false where TLS is terminated upstream"} if enabled and is_upstream else {}


MODULES = tuple(
    Module(
        path=path,
        shape=shape,
        stored=modules.MutualTlsModule,
        shows=shows,
        to_response=_response,
        conflicts=conflicts,
        errors=(UnknownReference, Conflict),
    )
    for path, shape, shows, conflicts in (
        ("/edges/https/{edge_id}/mutual_tls", HttpsMutualTls, ShownHttpsMutualTls, _conflicts),
        ("/edges/tls/{id}/mutual_tls", MutualTls, ShownMutualTls, None),
    )
)
