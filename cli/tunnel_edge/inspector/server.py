"""The web server of the inspector. It listens on 127.0.0.1 only, and answers one request on each connection."""

import asyncio
import contextlib
import functools
import importlib.resources
import json
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import h11

from tunnel_edge.inspector import exports, pages, texts
from tunnel_edge.inspector.access import Access
from tunnel_edge.inspector.exchanges import Exchange, Journal
from tunnel_edge.inspector.html import Html
from tunnel_edge.inspector.pages import Site, View
from tunnel_edge.inspector.replay import Replay, ReplayRefused, from_text

_MAX_BODY = 2 * 1024 * 1024  # the most bytes of a form that a browser can send
_MAX_CONNECTIONS = 32
_TIMEOUT = 10.0  # seconds in which a browser must send its request
_PERIOD = 0.2  # seconds between two updates of a page
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
_HEADERS = (
    ("Content-Security-Policy", _POLICY),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "no-store"),
    ("Connection", "close"),
)
_ASSETS = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}


@dataclass(frozen=True)
class Reply:
    """A response that is sent as a whole."""

    status: int
    content: bytes = b""
    kind: str = "text/html; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class _PageRequest:
    """A permitted request. `path` is relative to the secret folder."""

    method: str
    path: str
    query: dict[str, list[str]]
    form: dict[str, list[str]]


class Inspector:
    """Serves the pages about the recorded requests in a journal.

    `get_url` returns the URL of the tunnel. `note` shows a sentence at the terminal.
    """

    def __init__(
        self, journal: Journal, replay: Replay, server: str, get_url: Callable[[], str], note: Callable[[str], None]
    ) -> None:
        self._journal, self._replay, self._server = journal, replay, server
        self._get_url, self._note = get_url, note
        self._connections = 0

    async def listen(self, listener: socket.socket) -> str:
        """Serve on a socket that listens on 127.0.0.1. Return the one-time link."""
        self._listener = await asyncio.start_server(self._serve, sock=listener)
        self.access = Access(listener.getsockname()[1])
        return self.access.link

    def close(self) -> None:
        self._listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the request of a connection."""
        self._connections += 1
        try:
            if self._connections <= _MAX_CONNECTIONS:
                parser = h11.Connection(h11.SERVER)
                async with asyncio.timeout(_TIMEOUT):
                    request, body = await _receive(parser, reader)
                await self._answer(parser, writer, request, body)
        except (OSError, TimeoutError, h11.ProtocolError):
            pass  # send no answer: the client closed the connection, is too slow, or does not speak HTTP
        except asyncio.CancelledError:
            pass  # te is ending. asyncio would log the cancellation as an error
        finally:
            self._connections -= 1
            writer.close()

    async def _answer(
        self, parser: h11.Connection, writer: asyncio.StreamWriter, request: h11.Request, body: bytes
    ) -> None:
        method, target = request.method.decode(), request.target.decode("latin-1")
        headers = [(name.decode(), value.decode("latin-1")) for name, value in request.headers]
        decision = self.access.decide(method, target, headers)
        if decision == "redeemed":
            redirect_headers = (("Location", self.access.folder), ("Set-Cookie", self.access.set_cookie))
            await _send(parser, writer, Reply(303, headers=redirect_headers))
            self._note(
                "A browser has used the link of the inspector. To open the inspector in another browser: "
                f"{self.access.link}"
            )
            return
        if decision == "denied":
            await _send(parser, writer, Reply(403))
            return
        parts = urlsplit(target)
        form = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True) if method == "POST" else {}
        page_request = _PageRequest(method, parts.path.removeprefix(self.access.folder), parse_qs(parts.query), form)
        if (page_request.method, page_request.path) == ("GET", "events"):
            await self._stream(parser, writer)
        else:
            await _send(parser, writer, await self._reply(page_request))

    async def _reply(self, page_request: _PageRequest) -> Reply:
        if page_request.method == "POST":
            return await self._change(page_request) if self.access.permits_change(page_request.form) else Reply(403)
        if page_request.method != "GET":
            return Reply(405, headers=(("Allow", "GET, POST"),))
        if page_request.path in _ASSETS:
            file = importlib.resources.files("tunnel_edge.inspector") / "page" / page_request.path
            return Reply(200, file.read_bytes(), _ASSETS[page_request.path])
        if not page_request.path:
            return await self._page(functools.partial(pages.list_page, self._site, self._list()))
        first, _, rest = page_request.path.removeprefix("requests/").partition("/")
        exchange = self._journal.find(int(first)) if first.isdigit() and len(first) < 10 else None
        if exchange is None:
            text = "This request is no longer recorded."
            return await self._page(functools.partial(pages.list_page, self._site, self._list(), text), 404)
        return await self._show(exchange, rest, page_request)

    async def _show(self, exchange: Exchange, rest: str, page_request: _PageRequest) -> Reply:
        """Return the page of an exchange, or the form or download that the `rest` of the path names."""
        if rest == "edit":
            return await self._page(functools.partial(pages.edit_page, self._site, self._list(), exchange))
        if rest == "har":
            har = json.dumps(exports.as_har([exchange], self._get_url())).encode()
            return _download(har, f"request-{exchange.id}.har")
        message = {"body/request": exchange.request, "body/response": exchange.response}.get(rest)
        if message:
            return _download(await asyncio.to_thread(texts.decode_body, message), f"body-{exchange.id}")
        if rest:
            return Reply(404)
        view = View(page_request.query.get("reveal", [""])[0], page_request.query.get("view") == ["hex"])
        return await self._page_of(exchange, view)

    async def _page_of(self, exchange: Exchange, view: View, status: int = 200) -> Reply:
        original = self._journal.find(exchange.replay_of) if exchange.replay_of else None
        make = functools.partial(pages.exchange_page, self._site, self._list(), exchange, original, view)
        return await self._page(make, status)

    async def _change(self, page_request: _PageRequest) -> Reply:
        """Handle a POST: replay a request or clear the journal. Redirect to the result."""
        if page_request.path == "clear":
            self._journal.clear()
            return Reply(303, headers=(("Location", self.access.folder),))
        first, _, rest = page_request.path.removeprefix("requests/").partition("/")
        exchange = self._journal.find(int(first)) if first.isdigit() and len(first) < 10 else None
        if exchange is None or rest != "replay":
            return Reply(404)
        text = page_request.form.get("text", [None])[0]
        try:
            edited = None if text is None else from_text(text, exchange)
            replayed = await self._replay.send(exchange.id, edited)
        except ReplayRefused as refusal:
            if text is None:
                return await self._page_of(exchange, View(error=str(refusal)), 409)
            make = functools.partial(
                pages.edit_page, self._site, self._list(), exchange, text.replace("\r\n", "\n"), str(refusal)
            )
            return await self._page(make, 409)
        return Reply(303, headers=(("Location", f"{self.access.folder}requests/{replayed.id}"),))

    async def _page(self, make: "functools.partial[Html]", status: int = 200) -> Reply:
        """Render a page in a thread, because a hostile body can take long."""
        try:
            return Reply(status, (await asyncio.to_thread(make)).encode("utf-8", "replace"))
        except ReplayRefused as refusal:
            text = str(await asyncio.to_thread(pages.list_page, self._site, self._list(), str(refusal)))
            return Reply(409, text.encode("utf-8", "replace"))

    @property
    def _site(self) -> Site:
        return Site(self.access.folder, self.access.token, self._get_url(), self._server)

    def _list(self) -> list[Exchange]:
        return list(self._journal.newest_first())

    async def _stream(self, parser: h11.Connection, writer: asyncio.StreamWriter) -> None:
        """Send rows of changed exchanges as server-sent events, until the browser leaves."""
        headers = [*_HEADERS, ("Content-Type", "text/event-stream")]
        writer.write(parser.send(h11.Response(status_code=200, headers=headers)) or b"")
        async for event in self._updates():
            if writer.is_closing():
                return
            writer.write(parser.send(h11.Data(data=event)) or b"")
            await writer.drain()

    async def _updates(self) -> AsyncIterator[bytes]:
        """Yield server-sent events: a row for each changed exchange, and periodically a comment."""
        changed: dict[int | None, None] = {}
        stop = self._journal.listen(lambda id: changed.setdefault(id))
        yield b": live\n\n"
        try:
            for turn in range(1 << 62):
                await asyncio.sleep(_PERIOD)
                ids = list(changed)
                changed.clear()
                if None in ids:
                    yield b"event: clear\ndata:\n\n"
                exchanges = [exchange for id in ids if id is not None and (exchange := self._journal.find(id))]
                rows = [f"event: row\ndata: {json.dumps(exports.summarize(exchange))}\n\n" for exchange in exchanges]
                if rows or turn % 25 == 0:
                    yield "".join(rows).encode() or b": live\n\n"
        finally:
            stop()


async def _receive(parser: h11.Connection, reader: asyncio.StreamReader) -> tuple[h11.Request, bytes]:
    """Return a request with its body. Raises h11.RemoteProtocolError, OSError."""
    request: h11.Request | None = None
    body = bytearray()
    while not isinstance(event := parser.next_event(), h11.EndOfMessage):
        match event:
            case h11.NEED_DATA:
                parser.receive_data(await reader.read(65536))
            case h11.Request():
                request = event
            case h11.Data():
                body += event.data
            case _:
                raise OSError("the client closed the connection before the end of the request")
        if len(body) > _MAX_BODY:
            raise OSError(f"the body of the request has more than {_MAX_BODY} bytes")
    if request is None:
        raise OSError("the client closed the connection before the end of the request")
    return request, bytes(body)


async def _send(parser: h11.Connection, writer: asyncio.StreamWriter, reply: Reply) -> None:
    kind = (("Content-Type", reply.kind),) if reply.content else ()
    headers = [*_HEADERS, *kind, *reply.headers, ("Content-Length", str(len(reply.content)))]
    writer.write(parser.send(h11.Response(status_code=reply.status, headers=headers)) or b"")
    if reply.content:
        writer.write(parser.send(h11.Data(data=reply.content)) or b"")
    with contextlib.suppress(ConnectionError):
        await writer.drain()


def _download(content: bytes, name: str) -> Reply:
    return Reply(200, content, "application/octet-stream", (("Content-Disposition", f'attachment; filename="{name}"'),))
