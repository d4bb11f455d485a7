"""The backend of TLS edges (SPEC 2.9): what answers the traffic."""

from typing import Annotated, Any

from chalicelib.api import links
from chalicelib.api.endpoints import Call
from chalicelib.api.errors import Conflict, UnknownReference
from chalicelib.api.fields import BackendId, Ref
from chalicelib.api.module import Enabled, Module
from chalicelib.api.references import References
from chalicelib.api.rules import if_empty
from chalicelib.storage.items import Item


class Backend(Enabled):
    """What answers the traffic of a TLS edge."""

    backend_id: Annotated[BackendId | None, if_empty(None)] = None
    """Backend that backs the endpoint; null detaches."""


class Shown(Enabled):
    """What answers the traffic of a TLS edge."""

    backend: Ref | None
    """Backend that backs the endpoint, null without one."""


def _points(kept: dict[str, Any]) -> References:
    return {"backend_id": [kept["backend_id"]] if kept["backend_id"] else []}


def _show(kept: dict[str, Any], _item: Item, call: Call) -> dict[str, Any]:
    id = kept["backend_id"]
    return {"enabled": kept["enabled"], "backend": links.ref(call.base_url, id) if id else None}


BACKEND = Module(
    path="/edges/tls/{id}/backend",
    shape=Backend,
    shows=Shown,
    show=_show,
    points=_points,
    refuses=(UnknownReference, Conflict),
)
