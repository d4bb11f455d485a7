"""TLS termination on HTTPS edges (SPEC 2.9). Where TLS ends is the edge's own; the module says which versions."""

from typing import Annotated, Any, Final, Literal

from chalicelib.api.caller import Caller
from chalicelib.api.endpoints import Call
from chalicelib.api.errors import InvalidRequest
from chalicelib.api.module import Enabled, Module
from chalicelib.api.rules import if_empty
from chalicelib.storage import table
from chalicelib.storage.items import Item

Place = Literal["edge", "upstream"]
Version = Literal["1.0", "1.1", "1.2", "1.3"]
EDGE: Final = "edge"  # where TLS ends on an edge that does not say


class TlsTermination(Enabled):
    """Which versions of TLS an HTTPS edge takes."""

    terminate_at: Annotated[Place | None, if_empty(None)] = None
    """Where TLS ends: `edge`, or `upstream` when it is passed through to the agent or application server.

    It is the edge's own: a request may repeat it and not change it.
    """

    min_version: Annotated[Version | None, if_empty(None)] = None
    """Minimum TLS version for termination. Null: a safe default; must be null where terminate_at is `upstream`."""


class Shown(Enabled):
    """Which versions of TLS an HTTPS edge takes."""

    terminate_at: Place
    """Where TLS ends: `edge`, or `upstream` when it is passed through to the agent or application server."""

    min_version: Version | None
    """Minimum TLS version for termination; null: a safe default, or TLS ends upstream."""


def check(asked: TlsTermination, terminate_at: str, *, at: str = "") -> None:
    """Refuse what does not go with where the edge terminates TLS; `at` is the path of the module in the body."""
    faults = {}
    if asked.terminate_at not in (None, terminate_at):
        faults[f"{at}terminate_at"] = f"is the edge's own, {terminate_at}: change it there"
    if terminate_at == "upstream" and asked.min_version:
        faults[f"{at}min_version"] = "must be null where TLS is terminated upstream"
    if faults:
        raise InvalidRequest.of(faults)


def _keep(asked: TlsTermination, _caller: Caller, _holder: str) -> dict[str, Any]:
    return {"enabled": asked.enabled, "min_version": asked.min_version}


def _show(kept: dict[str, Any], item: Item, _call: Call) -> dict[str, Any]:
    terminate_at = item.body.get("terminate_at", EDGE)
    min_version = kept["min_version"] if terminate_at == EDGE else None
    return {"enabled": kept["enabled"], "terminate_at": terminate_at, "min_version": min_version}


class _TlsTermination(Module):
    def put(self, call: Call) -> dict[str, Any]:
        """As any other, after a look at the edge."""
        edge = table.read(self.scope(call), call.id)
        check(call.body, edge.body["terminate_at"] if edge else EDGE)
        return super().put(call)


TLS_TERMINATION = _TlsTermination(
    path="/edges/https/{edge_id}/tls_termination", shape=TlsTermination, shows=Shown, keep=_keep, show=_show
)
