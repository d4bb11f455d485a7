"""Byte streams of connections, and what the recorder makes of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from tunnel_edge.inspector.exchanges import Exchange, Journal
from tunnel_edge.inspector.record import Recorder

GET = b"GET /a?b=1 HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /p HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc"
CHUNKED = b"POST /c HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nt: 1\r\n\r\n"
UPGRADE = b"GET /ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
HEAD = b"HEAD /h HTTP/1.1\r\nhost: x\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
OK_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@dataclass(frozen=True)
class In:
    """Bytes to the local server; b"" is their end."""

    data: bytes


@dataclass(frozen=True)
class Out:
    """Bytes from the local server; b"" is their end."""

    data: bytes


def record(
    stream: Sequence[In | Out], journal: Journal | None = None, *, split: int = 1 << 20, steps: int = 1 << 20
) -> list[Exchange]:
    """Return the exchanges of a connection, the oldest first.

    The bytes arrive in pieces of `split`. After each piece the recorder does at most so many steps.
    """
    journal = journal or Journal()
    recorder = Recorder(journal)
    for now, part in enumerate(stream):
        take = recorder.on_request if isinstance(part, In) else recorder.on_response
        for at in range(0, len(part.data) or 1, split):
            take(part.data[at : at + split], float(now))
            for _ in range(steps):
                if not recorder.step():
                    break
    while recorder.step():
        pass
    recorder.close(float(len(stream)))
    return [*journal.newest_first()][::-1]
