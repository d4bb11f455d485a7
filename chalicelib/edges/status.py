"""The status of an edge: what the live edge has made of it, as the edge hosts that live say."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from chalicelib.http.endpoints import Call
from chalicelib.model import edge_status, kinds
from chalicelib.model.edge_status import State
from chalicelib.model.kinds import Kind
from chalicelib.schema.fields import Timestamp
from chalicelib.schema.shapes import Shape
from chalicelib.storage.items import Item


class StatusOfHostport(Shape):
    """The state of a hostport on the live edge."""

    hostport: str
    """Where the edge listens, as host:port."""

    state: State
    """As of the edge; `unproved`: the domain is not the account's, `verification` of its reservation says why;
    `refused` also if no certificate covers the host."""

    since: Timestamp
    """When that state began, RFC 3339."""

    error: str
    """Why it is not served, a sentence; the engine's own where it refused. Empty where there is nothing to say."""

    certificate_id: str
    """The TLS certificate that it shows; empty where it shows none, or the operator's."""

    not_after: Timestamp | None
    """When the certificate ends, RFC 3339; null without one."""


class StatusOfRoute(Shape):
    """The state of a route on the live edge."""

    id: str
    """The route."""

    state: State
    """As the edge's."""

    since: Timestamp
    """When that state began, RFC 3339."""

    error: str
    """Why it is not served, a sentence; the engine's own where it refused. Empty where there is nothing to say."""


class StatusOfBackend(Shape):
    """The number of tunnels behind a backend."""

    backend_id: str
    """A backend that the edge leads to."""

    tunnels: int
    """The number of online tunnels that answer for it."""


class TCPEdgeStatus(Shape):
    """The state of the edge on the live edge, as the living edge hosts report it."""

    state: State
    """`live`: each living edge host serves all of the present revision; `partly`: some of it, or some hosts alone;
    `refused`: the engine cannot serve it, and serves its last good state if there is one; `unproved`: none of its
    domains is the account's; `waiting`: edge hosts have yet to take the present revision up, or none serves it."""

    revision: int
    """The last revision that every edge host took up, of which all that follows is told; 0 where none has yet."""

    at: Timestamp | None
    """When something of it changed last, RFC 3339; null where no edge host says anything."""

    hosts: int
    """The number of living edge hosts that report it."""

    hostports: list[StatusOfHostport]
    """Its hostports as edge hosts serve them."""

    backends: list[StatusOfBackend]
    """The backends that it leads to, and those that they share traffic between."""


class TLSEdgeStatus(TCPEdgeStatus):
    """The state of the edge on the live edge, as the living edge hosts report it.

    With mutual TLS each certificate of a client is believed until it ends: its revocation is not checked.
    """


class HTTPSEdgeStatus(TLSEdgeStatus):
    """The state of the edge on the live edge, as the living edge hosts report it.

    With mutual TLS each certificate of a client is believed until it ends: its revocation is not checked.
    """

    routes: list[StatusOfRoute]
    """Its routes as edge hosts serve them."""


SHAPES: Mapping[Kind, type[Shape]] = {
    kinds.HTTPS_EDGES: HTTPSEdgeStatus,
    kinds.TLS_EDGES: TLSEdgeStatus,
    kinds.TCP_EDGES: TCPEdgeStatus,
}


def show(edge: Item, _call: Call) -> dict[str, Any]:
    """Return the response for an edge, which is compared with its present revision. Raises aws.Unavailable."""
    found, hosts = edge_status.read(edge.account, edge.id, edge.revision)
    hostports = [{**asdict(it), "not_after": it.not_after or None} for it in found.hostports]
    routes = {"routes": [asdict(it) for it in found.routes]} if kinds.of(edge.id) is kinds.HTTPS_EDGES else {}
    return {
        "state": found.state,
        "revision": found.revision,
        "at": found.at or None,
        "hosts": hosts,
        "hostports": hostports,
        **routes,
        "backends": [asdict(it) for it in found.backends],
    }
