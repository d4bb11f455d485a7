"""Mutual TLS on TLS edges (SPEC 2.9): the authorities that vouch for the clients' certificates."""

from typing import Annotated, Any

from chalicelib.api import links
from chalicelib.api.endpoints import Call
from chalicelib.api.errors import Conflict, UnknownReference
from chalicelib.api.fields import Ref
from chalicelib.api.module import Enabled, Module
from chalicelib.api.references import References
from chalicelib.api.rules import Check, entries, id_of
from chalicelib.storage.items import Item


def _distinct(ids: list[str]) -> list[str]:
    if len(set(ids)) < len(ids):
        raise ValueError("must not name an authority twice")
    return ids


class MutualTls(Enabled):
    """Lets only clients with a certificate of these authorities connect."""

    certificate_authority_ids: Annotated[
        list[Annotated[str, id_of("ca")]], entries(1, 10), Check(_distinct, {"uniqueItems": True})
    ]
    """Authorities used to validate the TLS client certificate of the connection initiator."""


class Shown(Enabled):
    """Lets only clients with a certificate of these authorities connect."""

    certificate_authorities: list[Ref]
    """Authorities used to validate the TLS client certificate of the connection initiator."""


def _points(kept: dict[str, Any]) -> References:
    return {"certificate_authority_ids": kept["certificate_authority_ids"]}


def _show(kept: dict[str, Any], _item: Item, call: Call) -> dict[str, Any]:
    refs = [links.ref(call.base_url, id) for id in kept["certificate_authority_ids"]]
    return {"enabled": kept["enabled"], "certificate_authorities": refs}


MUTUAL_TLS = Module(
    path="/edges/tls/{id}/mutual_tls",
    shape=MutualTls,
    shows=Shown,
    show=_show,
    points=_points,
    refuses=(UnknownReference, Conflict),
)
