"""An inspector in a thread of the tests, with recorded exchanges and a local server for replays."""

import asyncio
import contextlib
import socket
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tunnel_edge.inspector.exchanges import Journal
from tunnel_edge.inspector.record import Recorder
from tunnel_edge.inspector.recording import Recording
from tunnel_edge.inspector.replay import Replay
from tunnel_edge.inspector.server import Inspector


@dataclass
class RunningInspector:
    """A running inspector. `upstream_requests` are heads that the local server got, `notes` what the person sees."""

    inspector: Inspector
    journal: Journal
    loop: asyncio.AbstractEventLoop
    upstream_requests: list[tuple[str, str, dict[str, str]]]
    notes: list[str] = field(default_factory=list)

    @property
    def link(self) -> str:
        return self.inspector.access.link

    @property
    def origin(self) -> str:
        return self.link.partition("/?")[0]

    @property
    def page(self) -> str:
        return self.origin + self.inspector.access.folder

    def read(self, path: str, cookie: str) -> str:
        """Return a page below the secret folder."""
        request = urllib.request.Request(self.page + path, headers={"Cookie": cookie})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return str(answer.read().decode())

    def record(self, request: bytes, response: bytes) -> None:
        """Record an exchange, in the loop of the inspector."""

        def work() -> None:
            recorder = Recorder(self.journal)
            recorder.on_request(request, 1_700_000_000.0)
            recorder.on_response(response, 1_700_000_000.012)
            recorder.on_response(b"", 1_700_000_000.012)
            while recorder.step():
                pass
            recorder.close(1_700_000_000.012)

        self.run(work)

    def run(self, work: Any) -> None:
        async def main() -> None:
            work()

        asyncio.run_coroutine_threadsafe(main(), self.loop).result(10)


@contextlib.contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Serve on a port of this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def inspecting(exchanges: Sequence[tuple[bytes, bytes]] = ()) -> Iterator[RunningInspector]:
    """Run an inspector with recorded exchanges."""
    upstream_requests: list[tuple[str, str, dict[str, str]]] = []

    class Upstream(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            upstream_requests.append((self.command, self.path, dict(self.headers)))
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(200)
            self.send_header("content-length", "6")
            self.end_headers()
            self.wfile.write(b"again\n")

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    with serving(Upstream) as port:
        recording = Recording(Journal())
        replay = Replay(recording, "127.0.0.1", port, None)
        notes: list[str] = []
        address = f"127.0.0.1:{port}"
        inspector = Inspector(recording.journal, replay, address, lambda: "https://demo.example.com", notes.append)
        listener = socket.create_server(("127.0.0.1", 0))
        asyncio.run_coroutine_threadsafe(inspector.listen(listener), loop).result(10)
        running_inspector = RunningInspector(inspector, recording.journal, loop, upstream_requests, notes)
        for request, response in exchanges:
            running_inspector.record(request, response)
        try:
            yield running_inspector
        finally:
            asyncio.run_coroutine_threadsafe(_end(inspector), loop).result(10)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)


async def _end(inspector: Inspector) -> None:
    """End the inspector with its open connections."""
    inspector.close()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
