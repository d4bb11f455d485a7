"""Sends requests to the user's SSH agent through its socket."""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from tunnel_edge.errors import FAILED, CommandError
from tunnel_edge.ssh.wire import Certificate, Reader, string

_TIMEOUT = 3.0  # seconds to wait for an answer of the agent
_WINDOWS_PIPE = r"\\.\pipe\openssh-ssh-agent"
_FAILURE, _SUCCESS, _LIST, _LISTED, _REMOVE, _ADD = 5, 6, 11, 12, 18, 25
_LIFETIME, _CONFIRM = 1, 2
_MAX_ANSWER = 1 << 20


class NoAgentError(CommandError):
    """There is no agent, or it does not answer."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"There is no SSH agent ({reason}): start one, or use te ssh login --file.", FAILED)


class ByteStream(Protocol):
    """A connection to the agent."""

    def send(self, data: bytes) -> None: ...
    def receive(self, size: int) -> bytes: ...


class Agent:
    """A client of the user's SSH agent, on an open connection."""

    def __init__(self, connection: ByteStream) -> None:
        self._connection = connection

    def certificates(self, comment: str) -> list[Certificate]:
        """Return the certificates in the agent that have this comment."""
        reader = Reader(self._call(_LIST, b"", _LISTED))
        identities = [(reader.string(), reader.string()) for _ in range(reader.uint32())]
        parsed = [Certificate.parse(blob) for blob, text in identities if text == comment.encode()]
        return [certificate for certificate in parsed if certificate]

    def add(self, certificate: Certificate, seed: bytes, comment: str, lifetime: int, *, confirm: bool) -> None:
        """Add a private key with its certificate. The agent removes both after `lifetime` seconds."""
        key = string(b"ssh-ed25519-cert-v01@openssh.com") + string(certificate.blob)
        key += string(certificate.public_key) + string(seed + certificate.public_key) + string(comment.encode())
        constraints = struct.pack(">BI", _LIFETIME, lifetime) + (bytes([_CONFIRM]) if confirm else b"")
        self._call(_ADD, key + constraints, _SUCCESS)

    def remove(self, certificate: Certificate) -> None:
        """Remove a certificate and its private key."""
        self._call(_REMOVE, string(certificate.blob), _SUCCESS)

    def _call(self, kind: int, content: bytes, expected: int) -> bytes:
        """Send a request, and return the content of the answer. Raises NoAgentError."""
        try:
            self._connection.send(string(bytes([kind]) + content))
            size = int.from_bytes(self._receive(4), "big")
            answer = self._receive(size) if 0 < size <= _MAX_ANSWER else b""
        except OSError as error:
            raise NoAgentError(str(error)) from error
        if answer[:1] != bytes([expected]):
            raise CommandError("The SSH agent refused the request: if it is locked, unlock it with ssh-add -X.", FAILED)
        return answer[1:]

    def _receive(self, size: int) -> bytes:
        content = b""
        while len(content) < size:
            part = self._connection.receive(size - len(content))
            if not part:
                raise OSError("the agent closed the connection")
            content += part
        return content


@contextmanager
def open_agent() -> Iterator[Agent]:
    """Connect to the agent. Raises NoAgentError."""
    address = os.environ.get("SSH_AUTH_SOCK") or (_WINDOWS_PIPE if os.name == "nt" else "")
    if not address:
        raise NoAgentError("SSH_AUTH_SOCK is not set")
    if os.name == "nt":
        with _open_pipe(address) as pipe:
            yield Agent(_Pipe(pipe))
        return
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_TIMEOUT)
        try:
            connection.connect(address)
        except OSError as error:
            raise NoAgentError(str(error)) from error
        yield Agent(_Socket(connection))


def _open_pipe(address: str) -> Any:
    try:
        return open(address, "r+b", buffering=0)
    except OSError as error:
        raise NoAgentError(str(error)) from error


class _Socket:
    def __init__(self, connection: socket.socket) -> None:
        self.send, self.receive = connection.sendall, connection.recv


class _Pipe:
    def __init__(self, pipe: Any) -> None:
        self.send, self.receive = pipe.write, pipe.read
