"""The status of an edge, decided from its records and the reports of edge hosts."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from chalicelib.http.endpoints import Call
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.edges.edge_status import State
from chalicelib.schema.fields import Timestamp
from chalicelib.schema.shapes import Shape
from chalicelib.storage.records.items import Item


class StatusOfHostport(Shape):
    """The state of a hostport on the live edge."""

    hostport: str
    """An address on which the edge listens, as host:port."""

    state: State
    """The state of the hostport, with the values of the edge's `state`. `unproved`: the account has not proved the
    domain; `verification` of its reservation says why. `refused` also means that no certificate covers the host."""

    since: Timestamp
    """When the edge changed last, or when Envoy rejected this part, RFC 3339."""

    error: str
    """Why the hostport is not served, or which certificate Envoy rejected, as a sentence; otherwise empty."""

    certificate_id: str
    """The TLS certificate that visitors get; empty if there is none, or if it is the operator's."""

    not_after: Timestamp | None
    """When the certificate expires, RFC 3339; null without a certificate."""


class StatusOfRoute(Shape):
    """The state of a route on the live edge."""

    id: str
    """The id of the route."""

    state: State
    """The state of the route, with the values of the edge's `state`."""

    since: Timestamp
    """When the edge changed last, or when Envoy rejected this part, RFC 3339."""

    error: str
    """Why the route is not served, as a sentence, or Envoy's own error if Envoy rejected the route; otherwise empty."""


class StatusOfBackend(Shape):
    """The number of tunnels behind a backend."""

    backend_id: str
    """The id of a backend of the edge."""

    tunnels: int
    """The number of online tunnels behind the backend."""


class TCPEdgeStatus(Shape):
    """The state of the edge as visitors see it. It is decided from the edge's records and the reports of edge hosts."""

    state: State
    """`live`: the next visitor is served with the current revision. `partly`: only parts of it are served, or only by
    some hosts. `refused`: the records do not allow it, or Envoy rejects it. Envoy then serves the last good state, if
    there is one. `unproved`: the account has proved none of the edge's domains. `waiting`: no edge host has tried the
    current revision yet, or none is live. A minute after a change without a result, the records decide."""

    revision: int
    """The current revision; while the state is `waiting`, the last revision that an edge host tried, 0 if none."""

    at: Timestamp | None
    """When the edge last changed, or an edge host last reported about it, RFC 3339; null if no edge host is live."""

    hosts: int
    """The number of edge hosts that reported something about the current revision."""

    hostports: list[StatusOfHostport]
    """The hostports of the edge; empty if no edge host is live."""

    backends: list[StatusOfBackend]
    """The backends of the edge, and the children of its weighted backends."""


class TLSEdgeStatus(TCPEdgeStatus):
    """The state of the edge as visitors see it. It is decided from the edge's records and the reports of edge hosts.

    Mutual TLS accepts a client's certificate until it expires: revocation is not checked.
    """


class HTTPSEdgeStatus(TLSEdgeStatus):
    """The state of the edge as visitors see it. It is decided from the edge's records and the reports of edge hosts.

    Mutual TLS accepts a client's certificate until it expires: revocation is not checked.
    """

    routes: list[StatusOfRoute]
    """The routes of the edge; empty if no edge host is live."""


SHAPES: Mapping[Kind, type[Shape]] = {
    kinds.HTTPS_EDGES: HTTPSEdgeStatus,
    kinds.TLS_EDGES: TLSEdgeStatus,
    kinds.TCP_EDGES: TCPEdgeStatus,
}


def show(edge: Item, _call: Call) -> dict[str, Any]:
    """Return the status of an edge. Raises aws.Unavailable."""
    from chalicelib.model.serving import status_reads  # an import at the top of the file would slow down cold starts

    report = status_reads.read(edge)
    status = report.status
    hostports = [{**asdict(hostport), "not_after": hostport.not_after or None} for hostport in status.hostports]
    routes = (
        {"routes": [asdict(route) for route in status.routes]} if kinds.identify(edge.id) is kinds.HTTPS_EDGES else {}
    )
    return {
        "state": status.state,
        "revision": status.revision,
        "at": status.at or None,
        "hosts": report.hosts,
        "hostports": hostports,
        **routes,
        "backends": [asdict(backend) for backend in status.backends],
    }
