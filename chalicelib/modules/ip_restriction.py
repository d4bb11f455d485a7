"""Restriction of visitors by their address, on edges, routes, and the tunnels of reserved domains and addresses."""

from typing import Annotated, Any

from chalicelib.http import messages
from chalicelib.http.endpoints import Call
from chalicelib.http.errors import Conflict, UnknownReference
from chalicelib.http.module import Enabled, Module
from chalicelib.model.edges.modules.ip_restriction import MAX_NAMED, IpRestrictionModule
from chalicelib.schema.fields import Ref
from chalicelib.schema.rules import After, entries, id_of
from chalicelib.storage.records.items import Item


def _reject_duplicates(ids: list[str]) -> list[str]:
    if len(set(ids)) < len(ids):
        raise ValueError("must not name a policy twice")
    return ids


class IpRestriction(Enabled):
    """Admits only visitors that IP policies allow."""

    ip_policy_ids: Annotated[
        list[Annotated[str, id_of("ip_policy_ids")]],
        entries(1, MAX_NAMED),
        After(_reject_duplicates, {"uniqueItems": True}),
    ]
    """The IP policies. A visitor passes if an allow rule of any of them matches its address, and no deny rule does."""


class ShownIpRestriction(Enabled):
    """Admits only visitors that IP policies allow."""

    ip_policies: list[Ref]
    """The IP policies. A visitor passes if an allow rule of any of them matches its address, and no deny rule does."""


def _build_response(module: IpRestrictionModule, _parent: Item, call: Call) -> dict[str, Any]:
    refs = [messages.ref(call.base_url, id) for id in module.ip_policy_ids]
    return {"enabled": module.enabled, "ip_policies": refs}


def _describe(shape: type[Enabled], parent: str) -> type[Enabled]:
    """Return a subclass of the model `shape`. Its description names `parent`, for example "an HTTPS edge"."""
    description = f"Admits only visitors of {parent} that IP policies allow, by their address."
    return type(shape.__name__, (shape,), {"__doc__": description})


_PARENTS = {
    "/edges/https/{edge_id}": "an HTTPS edge",
    "/edges/https/{edge_id}/routes/{id}": "an HTTPS edge route",
    "/edges/tls/{id}": "a TLS edge",
    "/edges/tcp/{id}": "a TCP edge",
    "/reserved_domains/{id}": "the tunnels of a reserved domain",
    "/reserved_addrs/{id}": "the tunnels of a reserved address",
}
MODULES = tuple(
    Module(
        path=f"{path}/ip_restriction",
        shape=_describe(IpRestriction, parent),
        stored=IpRestrictionModule,
        shows=_describe(ShownIpRestriction, parent),
        to_response=_build_response,
        errors=(UnknownReference, Conflict),
    )
    for path, parent in _PARENTS.items()
)
