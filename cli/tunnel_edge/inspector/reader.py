"""Reads the HTTP/1.1 messages of one direction of a connection with h11. Does no I/O."""

import h11

from tunnel_edge.inspector.exchanges import Exchange, Message

_MAX_HEAD = 128 * 1024  # size limit of a request line or status line with headers. The edge accepts less


class MessageReader:
    """Reads the messages of one direction of a connection, with a new h11 parser for each message.

    One h11 object cannot read both directions: it can only receive one of them, and builds the messages of the other.
    `head` has the bytes of a message until its headers are complete. `remaining` is how many bytes of the body are
    missing, or None if only the parser can find the end of the body.
    """

    def __init__(self, role: type[h11.CLIENT] | type[h11.SERVER]) -> None:
        self._role = role
        self._parser = h11.Connection(role)
        self.is_idle = True  # true before the first message, and between two messages
        self.head = bytearray()
        self.remaining: int | None = None
        self.waiting = 0  # how many entries of the recorder's queue are data for this reader
        self.exchange: Exchange | None = None
        self.message: Message | None = None

    def begin(self, answered: h11.Request | None = None) -> None:
        """Begin a message. For a response, `answered` is its request: h11 needs it to find the end of the response."""
        self._parser = h11.Connection(self._role, max_incomplete_event_size=_MAX_HEAD)
        self.is_idle = False
        if answered:
            self._parser.send(answered)

    def feed(self, data: bytes) -> None:
        """Add bytes, or the end of the connection (b"")."""
        self._parser.receive_data(data)

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return the next event. Raises h11.RemoteProtocolError."""
        return self._parser.next_event()

    def rest(self) -> bytes:
        """Return the bytes that the parser has received, but not returned in an event yet."""
        return self._parser.trailing_data[0]

    def take_head(self) -> tuple[bytes, bytes]:
        """Return the bytes of the complete head of a message, and the bytes after the head."""
        rest = self.rest()
        head = bytes(self.head[: len(self.head) - len(rest)])
        self.head.clear()
        return head, rest

    def end(self, rest: bytes) -> None:
        """End the message. `rest` has the bytes of the next one, if some have arrived."""
        if self.message:
            self.message.complete(len(rest))
        self.is_idle, self.exchange, self.message, self.remaining = True, None, None, None
