"""A TCP proxy in front of the store that fails as networks and servers do: for everyone, or for some requests only.

It relays whole HTTP messages, so that it can choose a fault by what a request says and cut an answer at any byte.
"""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from itertools import cycle
from typing import BinaryIO

HELD = 4  # seconds, longer than the API waits for an answer
SLOWLY = 2.5  # seconds, not as long
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n\r\n%b"


class Fault(Enum):
    NONE = auto()
    CUT = auto()  # the request arrives, the answer breaks off
    SLOW = auto()  # the answer comes while it is still waited for
    DELAY = auto()  # the request arrives, the answer comes when nobody waits for it any more
    LATE = auto()  # the request itself arrives only then
    SILENCE = auto()  # nothing arrives, nothing is answered
    EMPTY = auto()  # the request arrives, the answer is a 200 without a body
    GARBLED = auto()  # the request arrives, the answer is a 200 in bytes that are no text, or in text that is no JSON


@dataclass(frozen=True)
class Rule:
    """Which requests a fault meets: those that hold all the marks. Several faults take turns."""

    marks: tuple[bytes, ...]
    faults: Iterator[Fault]


class Proxy:
    """Listens until it is closed; passes everything through until it is told otherwise."""

    def __init__(self, store_port: int) -> None:
        self._store_port = store_port
        self._reserved_socket = socket.socket()  # keeps the port ours while nobody listens there
        self._reserved_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved_socket.bind(("127.0.0.1", 0))
        self._rules: list[Rule] = []
        self._cuts = cycle(range(0, 900, 37))  # from before the status line to within the body
        self._garbage = cycle([b'{"Item": \xff}', b'{"Item": ', b"[]", b"<html>", b'"\xc3"'])
        self._closed = threading.Event()
        self._late = 0
        self._arrived = threading.Condition()
        self._open: set[socket.socket] = set()
        self._listen()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._reserved_socket.getsockname()[1]}"

    @contextmanager
    def fail(self, *faults: Fault, marks: tuple[str, ...] = ()) -> Iterator[None]:
        """Let requests that hold all the marks meet these faults in turn, in this block."""
        rule = Rule(tuple(mark.encode() for mark in marks), cycle(faults))
        self._rules.append(rule)
        try:
            yield
        finally:
            self._rules.remove(rule)

    @contextmanager
    def refuse(self) -> Iterator[None]:
        """Break every connection, and refuse new ones as a port does where nothing listens."""
        self._hang_up()
        try:
            yield
        finally:
            self._listen()

    def settle(self) -> None:
        """Wait until every request that was to be late has arrived."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: self._late == 0, timeout=30)

    def close(self) -> None:
        self._closed.set()
        self._hang_up()
        self._reserved_socket.close()

    def _listen(self) -> None:
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(self._reserved_socket.getsockname())
        self._listener.listen(128)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _hang_up(self) -> None:
        for end in (self._listener, *self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client = listener.accept()[0]
            except OSError:  # it was shut down
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self._store_port)) as store:
            self._open |= {client, store}
            with client.makefile("rb") as requests, store.makefile("rb") as answers, suppress(OSError):  # one hung up
                while (request := _message(requests)) and self._relay(request, client, store, answers):
                    pass
            self._open -= {client, store}

    def _relay(self, request: bytes, client: socket.socket, store: socket.socket, answers: BinaryIO) -> bool:
        """Pass on one request and its answer, or fail; return whether the connection can still be used."""
        fault = self._fault(request)
        if fault is Fault.SILENCE:
            client.recv(1)  # until it hangs up
            return False
        with self._lateness(fault):
            store.sendall(request)
            answer = _message(answers)
        self._closed.wait({Fault.DELAY: HELD, Fault.SLOW: SLOWLY}.get(fault, 0))
        client.sendall(self._distort(answer, fault))
        return fault in (Fault.NONE, Fault.SLOW, Fault.EMPTY, Fault.GARBLED)

    def _distort(self, answer: bytes, fault: Fault) -> bytes:
        """Return the answer as it is sent: whole, cut, or replaced."""
        match fault:
            case Fault.CUT:
                return answer[: next(self._cuts) % len(answer)]
            case Fault.EMPTY:
                return OK % (0, b"")
            case Fault.GARBLED:
                garbage = next(self._garbage)
                return OK % (len(garbage), garbage)
            case _:
                return answer

    @contextmanager
    def _lateness(self, fault: Fault) -> Iterator[None]:
        if fault is not Fault.LATE:
            yield
            return
        self._count_late(1)
        self._closed.wait(HELD)
        try:
            yield
        finally:
            self._count_late(-1)

    def _count_late(self, change: int) -> None:
        with self._arrived:
            self._late += change
            self._arrived.notify_all()

    def _fault(self, request: bytes) -> Fault:
        met = (rule for rule in self._rules if all(mark in request for mark in rule.marks))
        return next((next(rule.faults) for rule in met), Fault.NONE)


def _message(stream: BinaryIO) -> bytes:
    """Return the next request or answer, whole; b"" when the connection has ended."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = stream.readline()
        if not line:
            return b""
        head += line
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    return head + stream.read(int(length[1]) if length else 0)
