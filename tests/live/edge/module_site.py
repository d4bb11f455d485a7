"""An edge with a route for each form of a module, its upstream, and clients that send requests to it."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from edge.process.settings import Settings
from edge.sign_in import authorization
from tests.live.edge.running import Edge, until
from tests.transports import Client

Lines = Sequence[tuple[str, bytes]]


class Origin(BaseHTTPRequestHandler):
    """A server that counts and echoes the bodies of requests."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    bodies: list[bytes] = []
    authorizations: list[str | None] = []
    requests: list[Message] = []  # their headers
    trailers: list[bytes] = []

    def do_POST(self) -> None:
        self.authorizations.append(self.headers.get("authorization"))
        self.requests.append(self.headers)
        body = self._read_chunks() if "chunked" in self.headers.get("transfer-encoding", "") else self._read_body()
        self.bodies.append(body)
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if self.command != "HEAD" else b"")

    do_GET = do_HEAD = do_PUT = do_DELETE = do_OPTIONS = do_POST

    def _read_body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def _read_chunks(self) -> bytes:
        body = b""
        while length := int(self.rfile.readline(), 16):
            body += self.rfile.read(length)
            self.rfile.readline()
        while line := self.rfile.readline().strip():
            self.trailers.append(line)
        return body

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def verifying(edge: Edge, settings: Settings) -> Iterator[None]:
    """Run the sign-in service on the edge's host, which also verifies webhooks and passwords."""

    async def start() -> "asyncio.Task[None]":
        return asyncio.create_task(authorization.serve(settings))

    async def stop(task: "asyncio.Task[None]") -> None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    task = edge.run(start())
    until(settings.sign_in_socket.exists)
    yield
    edge.run(stop(task))


@dataclass
class Site:
    """An edge that the API has made. `routes` are the ids of its routes by their paths."""

    edge: Edge
    admin: Client
    name: str
    module: str
    id: str
    backend: str
    routes: dict[str, str] = field(default_factory=dict)  # ids by path

    def put(self, path: str, module: dict[str, object] | None) -> None:
        """Set or delete the module of a route, and wait until Envoy has the change."""
        address = f"/edges/https/{self.id}/routes/{self.routes[path]}/{self.module}"
        if module is None:
            assert self.admin.delete(address).status == 204
        else:
            assert self.admin.put(address, module).status == 200
        self.edge.settle()

    def add(self, path: str, modules: Mapping[str, object]) -> None:
        """Add a route with modules."""
        body = {"match_type": "path_prefix", "match": f"/{path}", "backend": {"backend_id": self.backend}, **modules}
        self.routes[path] = self.admin.create(f"/edges/https/{self.id}/routes", body)["id"]

    def send(
        self, path: str, lines: Lines, body: bytes = b"", method: str = "POST", *, chunk: int = 0, source: str = ""
    ) -> tuple[int, bytes]:
        """Return status and body of the response to a request. `chunk` is the size of its chunks."""
        content = body
        framing = b"content-length: %d\r\n" % len(body)
        if chunk:
            parts = [body[at : at + chunk] for at in range(0, len(body), chunk)]
            content = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
            framing = b"transfer-encoding: chunked\r\n"
        head = f"{method} {path} HTTP/1.1\r\nhost: {self.host}\r\n".encode() + framing + encode(lines)
        return self.send_raw(head + b"\r\n" + content, method, source)

    @property
    def host(self) -> str:
        return f"{self.name}.{self.edge.settings.tunnel_domain}:{self.edge.settings.edge_port}"

    def send_raw(self, request: bytes, method: str = "POST", source: str = "") -> tuple[int, bytes]:
        """Return status and body of the response to bytes on a connection of their own."""
        with self.edge.connect(self.name, source=source) as connection:
            with contextlib.suppress(OSError):  # a refusal can close the connection before all is sent
                connection.sendall(request)
            answer = HTTPResponse(connection, method=method)
            answer.begin()
            return answer.status, answer.read()


def encode(lines: Lines) -> bytes:
    """Return headers as HTTP/1.1 has them."""
    return b"".join(name.encode() + b": " + value + b"\r\n" for name, value in lines)


@contextlib.contextmanager
def serving(
    edge: Edge, admin: Client, name: str, module: str, values: Mapping[str, Mapping[str, object]]
) -> Iterator[Site]:
    """Serve an edge with a route for each value of a module, by path, and /open without the module."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    server.block_on_close = False
    threading.Thread(target=server.serve_forever, daemon=True).start()
    edge.ssh(edge.key(admin.account), "-R", f"app={name}:80:localhost:{server.server_port}")
    group = admin.create("/backends/tunnel_group", {"labels": {"app": name}})["id"]
    edge_id = admin.create("/edges/https", {"hostports": [f"{name}.{edge.settings.tunnel_domain}:443"]})["id"]
    site = Site(edge, admin, name, module, edge_id, group)
    for path in (*values, "open"):
        site.add(path, {module: values[path]} if path in values else {})
    until(lambda: edge.status(name, path="/open") == "200")
    Origin.bodies.clear()
    yield site
    server.shutdown()
    server.server_close()
