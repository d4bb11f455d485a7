"""Recorded requests with their responses, and the journal that limits their number and memory. Does no I/O."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

MAX_EXCHANGES = 500
MAX_BODY = 256 * 1024  # the most bytes recorded of each body. Further bytes are only counted
MAX_MEMORY = 64 * 1024 * 1024  # the most bytes of all exchanges together. Beyond it, the oldest ones are dropped

_OVERHEAD = 2048  # estimated bytes of memory that an exchange takes besides its heads and bodies


@dataclass
class Message:
    """A request or response. `head` and `body` are bytes as they were sent.

    `start` is the first line: method, target and version, or version, status and reason. `size` counts all bytes of the
    body, and `body` has at most MAX_BODY of them. The body of a chunked message includes the sizes of the chunks.
    """

    start: tuple[str, str, str]
    raw_headers: Sequence[tuple[bytes, bytes]]
    head: bytes
    body: bytearray = field(default_factory=bytearray)
    size: int = 0
    is_complete: bool = False

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Return the names and values of all headers as they were sent."""
        return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in self.raw_headers)

    @property
    def is_cut(self) -> bool:
        """Return whether a part of the body was not recorded."""
        return len(self.body) < self.size

    def header(self, name: str) -> str:
        """Return the first value of a header, or ""."""
        lower_name = name.encode()
        return next((value.decode("latin-1") for key, value in self.raw_headers if key.lower() == lower_name), "")

    def add(self, data: bytes, *, is_stored: bool) -> None:
        """Append bytes to the body."""
        if is_stored and len(self.body) == self.size:
            self.body += data[: MAX_BODY - len(self.body)]
        self.size += len(data)

    def complete(self, rest: int) -> None:
        """Mark the message as complete. The last `rest` bytes belong to the next message."""
        self.size -= rest
        self.body = self.body[: self.size]  # a copy, because a bytearray that has grown has unused memory
        self.is_complete = True


@dataclass
class Exchange:
    """A request with its response, or a connection that is not HTTP/1.1.

    Times are in seconds since 1970. When a connection is not HTTP/1.1 any more, for example a WebSocket, `received` and
    `sent` count its bytes. `note` says why a part of the exchange is missing.
    """

    id: int
    at: float
    client: str = ""
    request: Message | None = None
    response: Message | None = None
    informational: list[int] = field(default_factory=list)
    answered_at: float | None = None
    ended_at: float | None = None
    received: int = 0
    sent: int = 0
    is_stream: bool = False
    note: str = ""
    replay_of: int | None = None
    is_dropped: bool = False  # whether the journal has removed this exchange
    weight: int = 0  # bytes that the journal counts for the exchange

    @property
    def is_over(self) -> bool:
        """Return whether the response, or the connection, has ended."""
        return self.ended_at is not None

    def measure(self) -> int:
        """Return how many bytes of memory the exchange takes."""
        total = _OVERHEAD
        for message in (self.request, self.response):
            if message:
                # the head counts twice, because the parsed headers are stored too
                total += 2 * len(message.head) + len(message.body)
        return total


class Journal:
    """The newest exchanges of a tunnel.

    Listeners are called with the id of a changed exchange, or None after `clear`.
    """

    def __init__(self, max_exchanges: int = MAX_EXCHANGES, max_memory: int = MAX_MEMORY) -> None:
        self._max_exchanges, self._max_memory = max_exchanges, max_memory
        self._exchanges: dict[int, Exchange] = {}
        self._last = 0
        self._listeners: list[Callable[[int | None], None]] = []
        self.memory = 0

    def begin(self, at: float, replay_of: int | None = None) -> Exchange:
        """Add and return a new exchange. The caller must call `update` as soon as the exchange can be shown."""
        self._last += 1
        exchange = self._exchanges[self._last] = Exchange(self._last, at, replay_of=replay_of)
        return exchange

    def update(self, exchange: Exchange) -> None:
        """Measure a changed exchange again. Drop the oldest exchanges until the journal is within its limits."""
        if exchange.is_dropped:
            return
        weight = exchange.measure()
        self.memory += weight - exchange.weight
        exchange.weight = weight
        while len(self._exchanges) > self._max_exchanges or self.memory > self._max_memory:
            self._drop(next(iter(self._exchanges)))
        self._notify(exchange.id)

    def find(self, id: int) -> Exchange | None:
        """Return an exchange by its id, or None."""
        return self._exchanges.get(id)

    def newest_first(self) -> Iterable[Exchange]:
        """Return all exchanges, the newest first."""
        return reversed(self._exchanges.values())

    def clear(self) -> None:
        for id in list(self._exchanges):
            self._drop(id)
        self._notify(None)

    def listen(self, listener: Callable[[int | None], None]) -> Callable[[], None]:
        """Add a listener. Return the function that removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _drop(self, id: int) -> None:
        exchange = self._exchanges.pop(id)
        self.memory -= exchange.weight
        exchange.is_dropped, exchange.weight = True, 0
        for message in (exchange.request, exchange.response):
            if message:
                message.body = bytearray()

    def _notify(self, id: int | None) -> None:
        for listener in list(self._listeners):
            listener(id)
