"""TLS termination on HTTPS edges (SPEC 2.9): TLS versions. The field `terminate_at` belongs to the edge itself."""

from typing import Annotated, Any, Literal

from chalicelib.http.endpoints import Call
from chalicelib.http.module import Enabled, Module
from chalicelib.model.edges.edges import HttpsEdge
from chalicelib.model.edges.modules.tls_termination import EDGE, MODULE, UPSTREAM, TlsEnd, TlsTerminationModule
from chalicelib.schema.rules import if_empty
from chalicelib.storage.records.items import Item

Version = Literal["1.0", "1.1", "1.2", "1.3"]


class TlsTermination(Enabled):
    """The TLS versions that an HTTPS edge accepts."""

    terminate_at: Annotated[TlsEnd | None, if_empty(None)] = None
    """The place where TLS ends: at the `edge`, or `upstream` at the agent or application server.

    It is a field of the edge. A request may repeat it, but not change it.
    """

    min_version: Annotated[Version | None, if_empty(None)] = None
    """Minimum TLS version for termination. Null is a safe default. It must be null if terminate_at is `upstream`."""


class ShownTermination(Enabled):
    """The TLS versions that an HTTPS edge accepts."""

    terminate_at: TlsEnd
    """The place where TLS ends: at the `edge`, or `upstream` at the agent or application server."""

    min_version: Version | None
    """Minimum TLS version for termination. Null is a safe default, or means that TLS ends upstream."""


def _find_conflicts(request: TlsTermination | None, edge: Item) -> dict[str, str]:
    """Return the validation errors if a module contradicts its edge's `terminate_at`.

    If `request` is None, the request does not change the module, and the stored module is checked.
    """
    terminate_at = HttpsEdge.of(edge.body).terminate_at
    stored = TlsTerminationModule.of(edge.modules.get("tls_termination", {}))
    min_version = request.min_version if request else stored.min_version
    errors = {}
    if request and request.terminate_at not in (None, terminate_at):
        errors["terminate_at"] = f"must be '{terminate_at}', like terminate_at of the edge: change the edge instead"
    if terminate_at == UPSTREAM and min_version:
        errors["min_version"] = "must be null if TLS ends upstream"
    return errors


def _build_response(module: TlsTerminationModule, edge: Item, _call: Call) -> dict[str, Any]:
    terminate_at = HttpsEdge.of(edge.body).terminate_at
    min_version = module.min_version if terminate_at == EDGE else None
    return {"enabled": module.enabled, "terminate_at": terminate_at, "min_version": min_version}


MODULES = tuple(
    Module(
        path=path,
        shape=TlsTermination,
        stored=MODULE.stored,
        shows=ShownTermination,
        to_response=_build_response,
        conflicts=_find_conflicts,
    )
    for path in MODULE.paths
)
