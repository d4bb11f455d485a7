"""The backend of TLS and TCP edges and of HTTPS edge routes (SPEC 2.9)."""

from typing import Annotated, Any

from chalicelib.http import messages
from chalicelib.http.endpoints import Call
from chalicelib.http.errors import Conflict, UnknownReference
from chalicelib.http.module import Enabled, Module
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.schema.fields import BackendId, Ref
from chalicelib.schema.rules import if_empty
from chalicelib.storage.records.items import Item


class Backend(Enabled):
    """The backend that answers the traffic of an edge or route."""

    backend_id: Annotated[BackendId | None, if_empty(None)] = None
    """The id of the backend; null removes it."""


class ShownBackend(Enabled):
    """The backend that answers the traffic of an edge or route."""

    backend: Ref | None
    """The backend; null if there is none."""


def _build_response(module: BackendModule, _parent: Item, call: Call) -> dict[str, Any]:
    ref = messages.ref(call.base_url, module.backend_id) if module.backend_id else None
    return {"enabled": module.enabled, "backend": ref}


def _describe(shape: type[Enabled], parent: str) -> type[Enabled]:
    """Return a subclass of the model `shape`. Its description names `parent`, for example "a TLS edge"."""
    return type(shape.__name__, (shape,), {"__doc__": f"The backend that answers the traffic of {parent}."})


_PARENTS = {
    "/edges/https/{edge_id}/routes/{id}": "an HTTPS edge route",
    "/edges/tls/{id}": "a TLS edge",
    "/edges/tcp/{id}": "a TCP edge",
}
MODULES = tuple(
    Module(
        path=f"{path}/backend",
        shape=_describe(Backend, parent),
        stored=BackendModule,
        shows=_describe(ShownBackend, parent),
        to_response=_build_response,
        errors=(UnknownReference, Conflict),
    )
    for path, parent in _PARENTS.items()
)
