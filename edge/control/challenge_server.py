"""Answers HTTP-01 challenges at a Unix socket. Envoy forwards them from its port without TLS."""

import asyncio
import contextlib
import time
from collections.abc import Iterable

import h11

from chalicelib import domains
from chalicelib.model.serving.account_view import AccountView, Service
from chalicelib.model.tls import challenge_records
from chalicelib.model.tls.challenge_records import PendingChallenge
from chalicelib.storage.records.change_log import ItemKey
from edge.control import challenge_answers
from edge.control.challenge_answers import ChallengeResponse, PendingDomains, Standing
from edge.control.names.loading import AccountReader
from edge.control.names.reads import StoreReads
from edge.control.names.shared_reads import SharedReads
from edge.plan import cold_reads
from edge.plan.cold_reads import ReadBudget
from edge.process import files
from edge.process.settings import Settings
from edge.store.records import Unavailable

_TIMEOUT = 10.0  # timeout of one request in seconds
_LOG_TIMEOUT = 3.0  # the most seconds that a request waits for a read of the change log before it is answered
_MAX_WAITING = 500  # the most requests that wait for a read of the change log. Further requests do not wait
_SHARE = 10  # challenges use at most a tenth of the budget for reads, because any client can send many requests
_READ_SIZE = 65536  # the most bytes in one read from a connection


class ChallengeServer:
    """Answers each request from the current records. So the issuer does not have to notify edge hosts of orders.

    `budget` limits the reads of the store for names that this host has not loaded. The server uses at most a tenth of
    this budget. It needs these reads for requests without a pending challenge, to decide between a redirect and 404.
    """

    def __init__(self, settings: Settings, reader: AccountReader, reads: StoreReads, budget: ReadBudget) -> None:
        self._settings, self._reader = settings, reader
        share = max(1, settings.limits.max_cold_reads // _SHARE)
        self._share, self._budget = ReadBudget(share, settings.tunnel_domain, time.monotonic()), budget
        self._reads, self._domains = reads, PendingDomains()
        self._pending, self._standings = SharedReads(self._read_pending), SharedReads(self._read_standing)
        self._log_read, self._waiting = asyncio.Event(), 0

    def apply(self, item_keys: Iterable[ItemKey]) -> None:
        """Handle the changes that one read of the change log returned. Wake the requests that wait for such a read."""
        for item_key in item_keys:
            if domain := challenge_records.find_domain(item_key):
                self._domains.add(domain, time.time())
        self._share.forget_idle(time.monotonic())
        read, self._log_read = self._log_read, asyncio.Event()
        read.set()

    async def serve(self) -> None:
        """Answer requests at the socket for challenges, until cancelled."""
        socket = self._settings.challenge_socket
        socket.unlink(missing_ok=True)
        with files.shorten_socket_path(socket) as path:
            server = await asyncio.start_unix_server(self._handle, str(path), limit=_READ_SIZE, **files.KEEP_SOCKET)
        socket.chmod(0o660)
        async with server:
            await server.serve_forever()

    async def respond(self, host: str, path: str) -> ChallengeResponse:
        """Return the response to a challenge. `host` is the Host header, which can be invalid."""
        name = host.partition(":")[0].lower()
        if not cold_reads.is_host(name):
            return challenge_answers.UNKNOWN
        try:
            pending = await self._find_pending(name)
            if not pending and not domains.is_below(name, self._settings.tunnel_domain):
                await self._wait_for_log()  # the order of this challenge can be in the unread part of the change log
                pending = await self._find_pending(name)
            standing: Standing = "known" if pending else await self._standings.get(name)
        except Unavailable:
            return challenge_answers.UNAVAILABLE
        return challenge_answers.respond(path, pending, standing, self._settings.url(name))

    async def _find_pending(self, name: str) -> PendingChallenge | None:
        return await self._pending.get(name) if self._domains.has(name, time.time()) else None

    async def _read_pending(self, name: str) -> PendingChallenge | None:
        return await self._reads.for_visitor(challenge_records.find, name)

    async def _read_standing(self, name: str) -> Standing:
        now = time.monotonic()
        is_admitted = not self._share.take(name, now) and not self._budget.take(name, now)
        return await self._reads.for_visitor(self._decide_standing, name) if is_admitted else "unknown"

    def _decide_standing(self, name: str) -> Standing:
        """Return whether an account has a name, and has reserved it. Blocks. Raises Unavailable."""
        domain = self._settings.tunnel_domain
        account = self._reader.find_account(name)
        if not account:
            return "unknown"
        if not domains.is_below(name, domain):
            return "known"
        view = AccountView(self._reader.read(account, name, None), Service(domain))
        return "unreserved" if view.refuses_challenges(account, name) else "known"

    async def _wait_for_log(self) -> None:
        """Wait for a complete read of the change log. The read must begin after this call.

        Return earlier if too many requests wait, or after `_LOG_TIMEOUT`.
        """
        if self._waiting >= _MAX_WAITING:
            return
        self._waiting += 1
        try:
            async with asyncio.timeout(_LOG_TIMEOUT):
                for _ in range(2):  # wait for two reads: the first may have begun before this call
                    await self._log_read.wait()
        except TimeoutError:
            pass
        finally:
            self._waiting -= 1

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close the connection."""
        failures = OSError, TimeoutError, h11.ProtocolError
        with contextlib.closing(writer), contextlib.suppress(*failures):
            async with asyncio.timeout(_TIMEOUT):
                connection = h11.Connection(h11.SERVER)
                if request := await _read_request(connection, reader):
                    host = dict(request.headers).get(b"host", b"").decode("latin-1")
                    response = await self.respond(host, request.target.decode("latin-1"))
                    writer.write(_encode(connection, request, response))
                    await writer.drain()


async def _read_request(connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
    """Return a request without its body. Return None if the client closes without a request.

    Raises h11.ProtocolError.
    """
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await reader.read(_READ_SIZE))
    return event if isinstance(event, h11.Request) else None


def _encode(connection: h11.Connection, request: h11.Request, response: ChallengeResponse) -> bytes:
    body = response.body.encode()
    headers = [("connection", "close"), ("content-type", "text/plain"), ("content-length", str(len(body)))]
    if response.location:
        headers.append(("location", response.location))
    events: list[h11.Event] = [h11.Response(status_code=response.status, headers=headers)]
    if request.method != b"HEAD":
        events.append(h11.Data(data=body))
    return b"".join(connection.send(event) or b"" for event in (*events, h11.EndOfMessage()))
