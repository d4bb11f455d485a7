"""Records the requests and responses of one connection from copies of its bytes, with h11. Does no I/O.

The relay passes bytes in the order of their arrival. Bytes of a body with a known length are only counted, and stored
up to a limit. Other bytes wait for `step`, which parses a small part of them, so that the relay never waits. Data that
is not HTTP/1.1 is counted but not parsed: WebSockets and other upgrades, HTTP/2, and malformed data.
"""

from collections import deque
from typing import TypeAlias

import h11

from tunnel_edge.inspector import framing
from tunnel_edge.inspector.exchanges import Exchange, Journal, Message
from tunnel_edge.inspector.reader import MessageReader

_MAX_WAITING = 8 * 1024 * 1024  # limit in bytes for data of one connection that waits for `step`
_MAX_HELD = 64 * 1024  # limit in bytes for data after an upgrade request, until the response arrives

_Parsed: TypeAlias = h11.Request | h11.Response | h11.InformationalResponse

_INCOMPLETE = "the response is incomplete"


class Recorder:
    """Records the exchanges of one connection in a journal."""

    def __init__(self, journal: Journal, client: str = "", replay_of: int | None = None) -> None:
        self._journal, self._client, self._replay_of = journal, client, replay_of
        self._requests, self._responses = MessageReader(h11.SERVER), MessageReader(h11.CLIENT)
        self._unanswered: deque[Exchange] = deque()
        self._proposed: Exchange | None = None  # the exchange of an upgrade request that has no response yet
        self._early_data = bytearray()  # bytes that the client sent after an upgrade request without response
        self._stream: Exchange | None = None  # the exchange that counts the bytes of a connection that is not HTTP/1.1
        self._queue: deque[tuple[MessageReader, bytes, float]] = deque()
        self._waiting = 0
        self._busy: MessageReader | None = None  # the reader whose parser may have another event
        self._now = 0.0
        self.first: Exchange | None = None  # the first exchange of the connection

    def on_request(self, data: bytes, now: float) -> None:
        """Record bytes that go to the local server. b"" marks their end."""
        self._add(self._requests, data, now)

    def on_response(self, data: bytes, now: float) -> None:
        """Record bytes that come from the local server. b"" marks their end."""
        self._add(self._responses, data, now)

    @property
    def has_work(self) -> bool:
        """Return whether bytes wait for `step`."""
        return bool(self._queue or self._busy)

    def step(self) -> bool:
        """Parse a small part of the waiting bytes. Return whether there may be more work."""
        try:
            if self._busy:
                self._read(self._busy)
                return True
            if not self._queue:
                return False
            reader, data, self._now = self._queue.popleft()
            self._waiting -= len(data)
            reader.waiting -= 1
            self._take(reader, data)
        except h11.ProtocolError as error:
            self._become_stream(f"not HTTP/1.1: {error}")
        return True

    def close(self, now: float) -> None:
        """Record the end of the connection. `step` must have parsed all bytes before this call."""
        self._now = now
        for exchange in [*self._unanswered, *([self._stream] if self._stream else [])]:
            if exchange.ended_at is None:
                exchange.ended_at = now
                if not exchange.is_stream:
                    exchange.note = exchange.note or (_INCOMPLETE if exchange.response else "no response")
                self._journal.update(exchange)
        self._unanswered.clear()

    def _add(self, reader: MessageReader, data: bytes, now: float) -> None:
        if self._stream:
            self._count(reader, len(data))
        elif data and reader.remaining and not reader.waiting:
            self._now = now
            self._add_to_body(reader, data)
        elif self._waiting > _MAX_WAITING:
            self._now = now
            self._become_stream("the data came too fast to be recorded")
            self._count(reader, len(data))
        else:
            self._queue.append((reader, data, now))
            self._waiting += len(data)
            reader.waiting += 1

    def _take(self, reader: MessageReader, data: bytes) -> None:
        if self._stream:
            self._count(reader, len(data))
        elif reader is self._requests and self._proposed:
            self._early_data += data
            if len(self._early_data) > _MAX_HELD:
                self._become_stream("the client sent too much data after its request to upgrade, before the response")
        elif data and reader.remaining:
            self._add_to_body(reader, data)
        elif data:
            self._feed(reader, data)
        elif not reader.is_idle:
            self._end_early(reader)

    def _feed(self, reader: MessageReader, data: bytes) -> None:
        if reader.is_idle and not self._begin(reader):
            self._become_stream("not HTTP/1.1: the server sent data without a request")
            self._count(reader, len(data))
            return
        if reader.message:
            self._store(reader, data)
        else:
            reader.head += data
        reader.feed(data)
        self._busy = reader

    def _end_early(self, reader: MessageReader) -> None:
        """Complete a response without a length, because the connection has ended. Other messages stay incomplete."""
        try:
            if reader.remaining:
                raise h11.RemoteProtocolError(_INCOMPLETE)
            reader.feed(b"")
            while not isinstance(reader.next_event(), h11.EndOfMessage):
                pass
        except h11.RemoteProtocolError:
            if reader.exchange:
                reader.exchange.note = "the request is incomplete" if reader is self._requests else _INCOMPLETE
                self._journal.update(reader.exchange)
        else:
            self._end(reader, reader.rest())

    def _begin(self, reader: MessageReader) -> bool:
        """Begin a message. Return False if it is a response without a request."""
        if reader is self._requests:
            reader.begin()
        elif self._unanswered:
            reader.exchange = self._unanswered[0]
            reader.begin(framing.find_answered_request(reader.exchange))
        return not reader.is_idle

    def _read(self, reader: MessageReader) -> None:
        """Record the next event of a reader's h11 parser."""
        event = reader.next_event()
        match event:
            case h11.Request():
                self._on_request_head(event)
            case h11.InformationalResponse() | h11.Response():
                self._on_response_head(event)
            case h11.EndOfMessage():
                self._busy = None
                self._end(reader, reader.rest())
            case h11.Data():
                pass
            case _:  # the parser has no event before more data arrives, or before the other direction continues
                self._busy = None

    def _on_request_head(self, event: h11.Request) -> None:
        if event.http_version not in (b"1.0", b"1.1"):
            raise h11.RemoteProtocolError(f"version {_text(event.http_version)}")
        head, rest = self._requests.take_head()
        start = (_text(event.method), _text(event.target), _text(event.http_version))
        exchange = self._create()
        exchange.request = message = Message(start, event.headers.raw_items(), head)
        exchange.client = message.header("x-forwarded-for").rpartition(",")[2].strip() or self._client
        self._requests.exchange, self._requests.message = exchange, message
        self._unanswered.append(exchange)
        self._begin_body(self._requests, framing.body_length(event), rest)

    def _on_response_head(self, event: h11.Response | h11.InformationalResponse) -> None:
        head, rest = self._responses.take_head()
        exchange = self._responses.exchange
        if exchange is None:
            return
        is_switch = event.status_code == 101
        if isinstance(event, h11.InformationalResponse) and not is_switch:
            exchange.informational.append(event.status_code)
            self._responses.head += rest
        else:
            start = (_text(event.http_version), str(event.status_code), _text(event.reason))
            exchange.response = message = Message(start, event.headers.raw_items(), head)
            exchange.answered_at = self._now
            if is_switch or (framing.method(exchange) == "CONNECT" and event.status_code < 300):
                message.is_complete = True
                self._become_stream("", exchange)
                self._count(self._responses, len(rest))
            else:
                self._responses.message = message
                self._begin_body(self._responses, framing.body_length(event, framing.method(exchange)), rest)
        self._journal.update(exchange)

    def _begin_body(self, reader: MessageReader, length: int | None, rest: bytes) -> None:
        """Begin the body of a message with its first bytes, `rest`. If `length` is None, the parser finds the end."""
        if length is None:
            self._store(reader, rest)
        else:
            self._busy, reader.remaining = None, length
            self._add_to_body(reader, rest)

    def _add_to_body(self, reader: MessageReader, data: bytes) -> None:
        """Add bytes to a body with a known length."""
        self._store(reader, data)
        reader.remaining = (reader.remaining or 0) - len(data)
        if reader.remaining <= 0:
            self._end(reader, data[len(data) + reader.remaining :])

    def _store(self, reader: MessageReader, data: bytes) -> None:
        if reader.message and reader.exchange:
            reader.message.add(data, is_stored=not reader.exchange.is_dropped)
            self._journal.update(reader.exchange)

    def _end(self, reader: MessageReader, rest: bytes) -> None:
        """End a message. `rest` has the first bytes of the next message."""
        exchange = reader.exchange
        reader.end(rest)
        if exchange is None:
            return
        if reader is self._requests and exchange.ended_at is None and framing.may_switch(exchange):
            self._proposed = exchange
            self._early_data += rest
            rest = b""
        self._put_back(reader, rest)
        if reader is self._responses:
            self._unanswered.remove(exchange)
            exchange.ended_at = self._now
            if exchange is self._proposed:  # the response refuses the upgrade, so requests can follow
                self._proposed = None
                self._put_back(self._requests, bytes(self._early_data))
                self._early_data.clear()
        self._journal.update(exchange)

    def _put_back(self, reader: MessageReader, data: bytes) -> None:
        """Put bytes back into the queue, because they belong to the reader's next message.

        Put them before bytes of the same direction that arrived later. Put bytes of requests before all other bytes.
        """
        if data:
            is_first = reader.waiting or reader is self._requests
            (self._queue.appendleft if is_first else self._queue.append)((reader, data, self._now))
            self._waiting += len(data)
            reader.waiting += 1

    def _become_stream(self, note: str, exchange: Exchange | None = None) -> None:
        """Stop parsing the connection. Only count its bytes from now on, in `exchange`.

        If `exchange` is None, count them in the exchange of the request that is being received, or else of the oldest
        request without a complete response, or else in a new exchange.
        """
        exchange = exchange or self._requests.exchange or (self._unanswered[0] if self._unanswered else None)
        self._stream = exchange or self._create()
        self._stream.is_stream, self._stream.note = True, note or self._stream.note
        self._stream.client = self._stream.client or self._client
        for other in self._unanswered:
            if other is not self._stream:
                other.ended_at, other.note = self._now, other.note or note
                self._journal.update(other)
        self._busy = None
        self._count(self._requests, len(self._requests.head) + len(self._early_data))
        self._count(self._responses, len(self._responses.head))
        for reader, data, _ in self._queue:
            self._count(reader, len(data))
        self._queue.clear()
        self._early_data.clear()
        self._waiting = 0
        self._journal.update(self._stream)

    def _create(self) -> Exchange:
        exchange = self._journal.begin(self._now, self._replay_of)
        self.first = self.first or exchange
        return exchange

    def _count(self, reader: MessageReader, size: int) -> None:
        if self._stream is None:
            return
        if reader is self._requests:
            self._stream.received += size
        else:
            self._stream.sent += size


def _text(data: bytes) -> str:
    return data.decode("latin-1")
