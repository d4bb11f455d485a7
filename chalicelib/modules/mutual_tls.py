"""Mutual TLS on TLS edges (SPEC 2.9): the authorities that vouch for the clients' certificates."""

from typing import Annotated, Any

from chalicelib.http import links
from chalicelib.http.endpoints import Call
from chalicelib.http.errors import Conflict, UnknownReference
from chalicelib.http.module import Enabled, Module
from chalicelib.model import modules
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


def _response(module: modules.MutualTls, _holder: Item, call: Call) -> dict[str, Any]:
    refs = [links.ref(call.base_url, id) for id in module.certificate_authority_ids]
    return {"enabled": module.enabled, "certificate_authorities": refs}


MODULES = (
    Module(
        path="/edges/tls/{id}/mutual_tls",
        shape=MutualTls,
        stored=modules.MutualTls,
        shows=ShownMutualTls,
        to_response=_response,
        errors=(UnknownReference, Conflict),
    ),
)
