"""Names of edges on a whole edge host, and visitors of them."""

import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from chalicelib import ids
from chalicelib.model.edges.backends import HttpResponse
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.served import Modules, ServedBackend, ServedEdge, ServedRoute
from edge.link import authority
from edge.link.authority import Authority
from tests.edge import served_records
from tests.edge.edge_modules import enabled
from tests.live.edge.ondemand.tables import ask
from tests.live.edge.running import Edge

ACCOUNT = "acct_forms"


@dataclass
class Name:
    """A name of an edge, and visitors who know it. All present a certificate of `clients` unless they are strangers."""

    edge: Edge
    host: str
    record: ServedEdge
    clients: Authority
    contexts: dict[tuple[bool, bool, str], ssl.SSLContext] = field(default_factory=dict)  # to issue a pair takes long

    def connect(
        self, *, is_stranger: bool = False, trusts_all: bool = False, version: str = "", source: str = "127.0.0.1"
    ) -> ssl.SSLSocket:
        kind = is_stranger, trusts_all, version
        if kind not in self.contexts:
            self.contexts[kind] = self._build_context(*kind)
        raw = socket.create_connection(("127.0.0.1", self.edge.settings.edge_port), 10, (source, 0))
        return self.contexts[kind].wrap_socket(raw, server_hostname=self.host)

    def _build_context(self, is_stranger: bool, trusts_all: bool, version: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.edge.settings.directory / "authority.crt")
        if trusts_all:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if not is_stranger:
            authority.load_into(context, self.clients.issue("client"))
        if version:
            context.maximum_version = ssl.TLSVersion[version]
        return context

    def visit(self, **options: object) -> str:
        """Return the status of a new connection, "" if it is refused."""
        try:
            with self.connect(**options) as connection:  # type: ignore[arg-type]
                return str(ask(connection, self.host)[0])
        except (OSError, ValueError):
            return ""

    def change(self, modules: Modules, *, is_listed: bool = True) -> None:
        self.record = replace(self.record, revision=self.record.revision + 1, modules=modules)
        (self.edge.store.keep if is_listed else served_records.put_unlisted)(self.record)

    @contextmanager
    def visiting(self, **options: object) -> Iterator[Counter[str]]:
        """Visit the name all the time. Yield the results."""
        statuses, is_over = Counter[str](), threading.Event()

        def visit() -> None:
            while not is_over.wait(0.02):
                statuses[self.visit(**options)] += 1

        thread = threading.Thread(target=visit)
        thread.start()
        try:
            yield statuses
        finally:
            is_over.set()
            thread.join()


def serve(edge: Edge, label: str = "", account: str = ACCOUNT) -> Name:
    """Add an edge that answers with a text, at a label below TUNNEL_DOMAIN or at a host. The default is a new label."""
    label = label or ids.new("x").lower().replace("_", "-")
    host = label if "." in label else f"{label}.{edge.settings.tunnel_domain}"
    answer = ServedBackend(account, ids.new("bkdhr"), HttpResponse(body="in"))
    route = ServedRoute(ids.new("edghtsrt"), "path_prefix", "/", enabled(BackendModule(backend_id=answer.id)))
    record = ServedEdge(account, ids.new("edghts"), 1, (f"{host}:443",), routes=(route,))
    edge.store.keep(answer)
    edge.store.keep(record)
    return Name(edge, host, record, authority.make("clients"))
