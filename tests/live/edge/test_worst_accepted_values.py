"""The worst values of one account, while another one changes its edge."""

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any

from chalicelib import ids
from chalicelib.model.base import kinds
from chalicelib.model.edges.backends import HttpResponse
from chalicelib.model.edges.edge_status import HostportStatus, RouteStatus
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.served import Modules, ServedBackend, ServedEdge, ServedRoute
from chalicelib.model.names.reservations import ServedReservation
from edge.link.authority import KeyPair
from tests import openssl
from tests.edge.edge_modules import enabled, extended, requested
from tests.edge.worst_values import DOMAIN, WORST_VALUES, Worst
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, build_certificate, until

GOOD, BAD = "acct_good", "acct_bad"
pytestmark = needs_envoy


class Bad:
    """What an account keeps of the worst values: an edge with all routes, and others of their own."""

    def __init__(self, edge: Edge) -> None:
        self._store = edge.store
        self.edge = ServedEdge(BAD, ids.new("edghts"), 1, (f"all.{DOMAIN}:443",))
        self.edges = {self.edge.id: self.edge}
        self._store.reserve(ServedReservation(BAD, ids.new("rd"), DOMAIN, True))
        self._store.reserve(ServedReservation(BAD, ids.new("rd"), f"*.{DOMAIN}", True))
        server_pair = openssl.issue(f"/CN={DOMAIN}")
        self._store.upload(
            build_certificate(ids.new("cert"), BAD, f"*.{DOMAIN}"), KeyPair(server_pair.certificate, server_pair.key)
        )
        self.answer = self._backend({"body": "fine"})
        self._keep(self.edge)

    def keep(self, worst: Worst) -> None:
        """Keep a value as the API does."""
        if worst.at == "/backends/http_response":
            self._route(
                f"/{len(self.edge.routes)}",
                "exact_path",
                enabled(BackendModule(backend_id=self._backend(worst.body))),
            )
        elif worst.at == "/edges/https":
            terminate_at, modules = worst.body.get("terminate_at", "edge"), requested(worst.body, kinds.HTTPS_EDGES)
            self._keep(ServedEdge(BAD, ids.new("edghts"), 1, tuple(worst.body["hostports"]), terminate_at, modules))
        else:
            modules = extended(
                requested(worst.body, kinds.HTTPS_EDGE_ROUTES), backend=BackendModule(backend_id=self.answer)
            )
            self._route(worst.body["match"], worst.body["match_type"], modules)

    def _backend(self, body: Any) -> str:
        record = ServedBackend(BAD, ids.new("bkdhr"), HttpResponse(**body))
        self._store.keep(record)
        return record.id

    def _route(self, match: str, kind: str, modules: Modules) -> None:
        route = ServedRoute(ids.new("edghtsrt"), kind, match, modules)
        self.edge = replace(self.edge, revision=self.edge.revision + 1, routes=(*self.edge.routes, route))
        self._keep(self.edge)

    def _keep(self, edge: ServedEdge) -> None:
        self.edges[edge.id] = edge
        self._store.keep(edge)


class Good:
    """An edge that another account changes, and a connection to it that is kept."""

    def __init__(self, edge: Edge) -> None:
        self._edge, self._answer = edge, ServedBackend(GOOD, ids.new("bkdhr"), HttpResponse(body="0"))
        route = ServedRoute(ids.new("edghtsrt"), "path_prefix", "/", enabled(BackendModule(backend_id=self._answer.id)))
        edge.store.keep(self._answer)
        edge.store.keep(ServedEdge(GOOD, ids.new("edghts"), 1, ("good.tunnels.localhost:443",), routes=(route,)))
        until(lambda: edge.curl("good") == "0")
        self._connection = edge.connect("good")

    def change(self) -> float:
        """Change what it answers; return the seconds until it does, also on the connection from before."""
        body = str(time.monotonic_ns())
        start = time.monotonic()
        self._edge.store.keep(replace(self._answer, value=HttpResponse(body=body)))
        until(lambda: self._ask() == body)
        return time.monotonic() - start

    def _ask(self) -> str:
        self._connection.sendall(b"GET / HTTP/1.1\r\nhost: good.tunnels.localhost\r\n\r\n")
        return self._connection.recv(10_000).decode().rpartition("\r\n")[2]


def in_turns(count: int) -> Iterator[list[Worst]]:
    """Yield all of the worst values in so many lots, each of every kind."""
    ordered = [value for _, kind in groupby(WORST_VALUES, key=lambda value: value.at) for value in kind]
    yield from (ordered[index::count] for index in range(count))


def test_the_worst_values_of_one_account_do_nothing_to_another(edge: Edge) -> None:
    good, bad = Good(edge), Bad(edge)
    for lot in in_turns(2):
        for worst in lot:
            bad.keep(worst)
        assert good.change() < 2
    until(lambda: all(is_told(edge, served_edge) for served_edge in bad.edges.values() if served_edge.hostports))


def is_told(edge: Edge, served_edge: ServedEdge) -> bool:
    """Tell whether the status of an edge is of its last revision, and says why where something is refused."""
    status = edge.store.status(served_edge)
    if status is None or status.revision != served_edge.revision or status.state == "waiting":
        return False
    parts: list[HostportStatus | RouteStatus] = [*status.hostports, *status.routes]
    return any(part.error for part in parts) or all(part.state != "refused" for part in parts)
