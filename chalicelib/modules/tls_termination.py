"""TLS termination on HTTPS edges (SPEC 2.9). Where TLS ends is the edge's own; the module says which versions."""

from typing import Annotated, Any, Literal

from chalicelib.http.endpoints import Call
from chalicelib.http.module import Enabled, Module
from chalicelib.model import modules
from chalicelib.model.edges import HttpsEdge
from chalicelib.model.modules import EDGE, UPSTREAM, TlsEnd
from chalicelib.schema.rules import if_empty
from chalicelib.storage.items import Item

Version = Literal["1.0", "1.1", "1.2", "1.3"]


class TlsTermination(Enabled):
    """Which versions of TLS an HTTPS edge takes."""

    terminate_at: Annotated[TlsEnd | None, if_empty(None)] = None
    """Where TLS ends: `edge`, or `upstream` when it is passed through to the agent or application server.

    It is the edge's own: a request may repeat it and not change it.
    """

    min_version: Annotated[Version | None, if_empty(None)] = None
    """Minimum TLS version for termination. Null: a safe default; must be null where terminate_at is `upstream`."""


class ShownTermination(Enabled):
    """Which versions of TLS an HTTPS edge takes."""

    terminate_at: TlsEnd
    """Where TLS ends: `edge`, or `upstream` when it is passed through to the agent or application server."""

    min_version: Version | None
    """Minimum TLS version for termination; null: a safe default, or TLS ends upstream."""


def _conflicts(request: TlsTermination | None, edge: Item) -> dict[str, str]:
    """Return the validation errors of a module, requested or stored, that contradicts where its edge terminates TLS."""
    terminate_at = HttpsEdge.of(edge.body).terminate_at
    stored = modules.TlsTerminationModule.of(edge.modules.get("tls_termination", {}))
    min_version = request.min_version if request else stored.min_version
    wrong = {}
    if request and request.terminate_at not in (None, terminate_at):
        wrong["terminate_at"] = f"is the edge's own, {terminate_at}: change it there"
    if terminate_at == UPSTREAM and min_version:
        wrong["min_version"] = "must be null where TLS is terminated upstream"
    return wrong


def _response(module: modules.TlsTerminationModule, edge: Item, _call: Call) -> dict[str, Any]:
    terminate_at = HttpsEdge.of(edge.body).terminate_at
    min_version = module.min_version if terminate_at == EDGE else None
    return {"enabled": module.enabled, "terminate_at": terminate_at, "min_version": min_version}


MODULES = (
    Module(
        path="/edges/https/{edge_id}/tls_termination",
        shape=TlsTermination,
        stored=modules.TlsTerminationModule,
        shows=ShownTermination,
        to_response=_response,
        conflicts=_conflicts,
    ),
)
