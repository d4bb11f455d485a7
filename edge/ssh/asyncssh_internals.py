"""The SSH connection of the gateway, with all uses of undocumented parts of asyncssh.

docs/asyncssh.md gives a reason and a replacement for each use; tests/edge/ssh/test_asyncssh_internals.py lists them.
"""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

import asyncssh
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from edge.ssh.data.packets import MSG_CHANNEL_DATA, Unread, guess_is_wrong, parse_channel_data

try:
    from asyncssh.constants import MSG_CHANNEL_WINDOW_ADJUST, MSG_IGNORE, MSG_KEXINIT
    from asyncssh.encryption import Encryption, GCMEncryption, encryption_needs_mac
    from asyncssh.logging import SSHLogger
    from asyncssh.packet import SSHPacket, UInt32
    from asyncssh.public_key import decode_ssh_certificate
except ImportError as error:
    raise ImportError(
        f"asyncssh {asyncssh.__version__} lacks a part that the gateway uses ({error}): see docs/asyncssh.md."
    ) from error

_MAX_QUEUED_REQUESTS = 100  # maximum unanswered global requests of a client: above it, the client is disconnected
_POLL = 0.01  # seconds between two checks whether all requests of a client are handled
_LENGTH_SIZE = 4  # bytes of the length field at the start of a packet

_CreateConnection: TypeAlias = Callable[[], "Connection"]


class Client(asyncssh.SSHServer):
    """Handles the events of one SSH connection.

    While more than `most_unread` bytes wait to be sent to the client, the connection reads nothing from the client. It
    calls `pause_writing` if more than a quarter of `most_unread` bytes wait.
    """

    most_unread: int

    def on_key_exchange(self) -> None:
        """Handle the client's first message of a key exchange."""

    def on_certificate(self, key_id: str) -> None:
        """Store the key id of the presented certificate, or "" for a key without certificate.

        asyncssh validates the certificate or key afterwards.
        """

    def on_signature(self) -> None:
        """Handle a valid signature by the client with the key or certificate that was validated last."""

    def on_rejected_key(self) -> None:
        """Handle a rejected key or certificate of the client."""

    def on_forward_host(self, host: str) -> None:
        """Store the host that the client sent in a forwarding request. asyncssh calls `server_requested` next."""

    def pause_writing(self) -> None:
        """Handle a client that reads more slowly than the gateway writes."""

    def resume_writing(self) -> None:
        """Handle a client that has caught up with reading, after `pause_writing`."""

    def on_variable(self, name: str, value: str) -> None:
        """Handle an environment variable that the client sends for a session."""

    def on_forbidden_forward(self) -> None:
        """Handle a forwarding request that the client's certificate does not permit."""


async def connection_factory(**options: Any) -> _CreateConnection:
    """Return a function that creates a Connection. `options` are the same as for `asyncssh.listen`."""
    constructed = await asyncssh.SSHServerConnectionOptions.construct(None, **options)
    return functools.partial(Connection, asyncio.get_running_loop(), constructed)


class _Log(SSHLogger):
    """A logger that ignores lines below warnings.

    asyncssh's own logger formats each line even if it is not logged, which takes a tenth of the time of opening a
    channel.
    """

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        if level >= logging.WARNING:
            super().log(level, msg, *args, **kwargs)

    def get_child(self, child: str = "", context: str = "") -> SSHLogger:
        return self


_LOG = _Log()


class Connection(asyncssh.SSHServerConnection):
    """An SSH connection that calls the methods of a Client, and decrypts channel data faster than asyncssh."""

    _owner: Client
    _wire: asyncio.Transport

    @property
    def logger(self) -> SSHLogger:
        return _LOG

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast(asyncio.Transport, transport)
        self._gathered: list[bytes] = []
        self._inpbuf = cast(bytes, Unread())
        super().connection_made(transport)
        self._wire.set_write_buffer_limits(high=self._owner.most_unread // 4)

    def pause_writing(self) -> None:
        self._owner.pause_writing()

    def resume_writing(self) -> None:
        self._owner.resume_writing()
        self._wire.resume_reading()

    def data_received(self, data: bytes, datatype: Any = None) -> None:
        super().data_received(data, datatype)
        if self._wire.get_write_buffer_size() > self._owner.most_unread:
            self._wire.pause_reading()
        if len(self._global_request_queue) > _MAX_QUEUED_REQUESTS:
            self.disconnect(asyncssh.DISC_BY_APPLICATION, "Too many requests at once.")

    # Methods for the key exchange

    def _send_kexinit(self) -> None:
        """Offer OpenSSH only AES-GCM ciphers. OpenSSH would choose AES-CTR, which is a third slower."""
        if b"OpenSSH" in self._client_version:
            self._enc_algs = [algorithm for algorithm in self._enc_algs if not encryption_needs_mac(algorithm)]
        super()._send_kexinit()

    def process_packet(self, pkttype: int, pktid: int, packet: SSHPacket) -> bool | Awaitable[None]:
        result = super().process_packet(pkttype, pktid, packet)
        if pkttype != MSG_KEXINIT:
            return result
        self._owner.on_key_exchange()
        return self._ignore_wrong_guess(cast(Awaitable[None], result))

    async def _ignore_wrong_guess(self, processed: Awaitable[None]) -> None:
        """Ignore the packet after a client's wrong guess (RFC 4253, section 7).

        A client can guess the key exchange before it is negotiated. asyncssh takes some wrong guesses for right ones,
        because it compares the guess with the result of the negotiation.
        """
        await processed
        self._ignore_first_kex = guess_is_wrong(self._client_kexinit, self._server_kexinit)

    # Methods that receive and send packets

    def _recv_packet(self) -> bool:
        """Decrypt and handle a packet of channel data. Leave other packets to asyncssh."""
        if isinstance(self._recv_encryption, GCMEncryption):
            self._recv_encryption = cast(Encryption, Gcm(self._recv_encryption))
        end = 4 + self._pktlen + self._recv_macsize - self._recv_blocksize
        if not isinstance(self._recv_encryption, Gcm) or len(self._inpbuf) < end:
            return super()._recv_packet()
        packet = cast(Unread, self._inpbuf).join_head(self._packet, end)
        parsed = parse_channel_data(self._recv_encryption.open(packet))
        channel = self._channels.get(parsed[0]) if parsed and self._auth_complete else None
        if not (parsed and channel) or channel._recv_state != "open" or len(parsed[1]) > channel._recv_window:
            return super()._recv_packet()
        self._inpbuf, self._packet = self._inpbuf[end:], b""
        channel._accept_data(parsed[1])
        self._finish_recv_packet(MSG_CHANNEL_DATA, self._recv_seq)
        return True

    def send_packet(self, pkttype: int, *args: bytes, handler: Any = None) -> None:
        """Send a packet unless it is a MSG_IGNORE.

        asyncssh sends MSG_IGNORE only to protect CBC ciphers, and the gateway offers no such cipher.
        """
        if pkttype != MSG_IGNORE:
            super().send_packet(pkttype, *args, handler=handler)

    def _send(self, data: bytes) -> None:
        """Collect packets. The next iteration of the event loop sends all of them with one system call."""
        if not self._gathered:
            self._loop.call_soon(self._flush)
        self._gathered.append(data)

    def _flush(self) -> None:
        gathered, self._gathered = b"".join(self._gathered), []
        self._wire.write(gathered)

    # Methods for requests of the client

    def create_server_channel(self, *arguments: Any, **named: Any) -> "asyncssh.SSHServerChannel[Any]":
        channel = super().create_server_channel(*arguments, **named)
        channel._env = _Environment(self._owner)
        return channel

    async def confirm(self) -> None:
        """Send the client a request. Wait for its answer, and until all earlier requests of the client are handled."""
        await self._make_global_request(b"keepalive@openssh.com")
        while any(channel._request_queue for channel in self._channels.values()):
            await asyncio.sleep(_POLL)

    async def validate_public_key(self, username: str, key_data: bytes, msg: bytes, signature: bytes) -> bool:
        self._owner.on_certificate(_key_id(key_data))
        valid = await super().validate_public_key(username, key_data, msg, signature)
        if not valid:
            self._owner.on_rejected_key()
        elif msg:
            self._owner.on_signature()
        return valid

    def _process_tcpip_forward_global_request(self, packet: SSHPacket) -> None:
        remaining = packet.get_remaining_payload()
        self._owner.on_forward_host(remaining[4 : 4 + int.from_bytes(remaining[:4])].decode(errors="replace"))
        if not self.check_certificate_permission("port-forwarding"):
            self._owner.on_forbidden_forward()
        super()._process_tcpip_forward_global_request(packet)


class ReadWindow:
    """Enlarges the window of a channel only by the number of bytes that its session has received.

    When a paused session resumes, asyncssh itself grants a whole window as soon as it has delivered the first waiting
    piece of data, although other pieces still wait. So the memory would grow with each pause.
    """

    def __init__(self, channel: "asyncssh.SSHTCPChannel[bytes]") -> None:
        self._channel = channel
        # bytes that the client may still send, plus bytes that have arrived but wait for delivery to the session
        self._room = channel._recv_window
        channel._deliver_data = self._deliver  # type: ignore[method-assign]

    def resize(self, size: int) -> None:
        """Set the size of the channel's receive window. The next window adjustment sends it to the client."""
        self._channel._init_recv_window = size

    def close(self) -> None:
        """Break the reference cycle between this object and the channel.

        Otherwise, both would stay in memory until the next garbage collection.
        """
        del self._channel._deliver_data  # deletes the attribute of the instance, so the class's method applies again

    def _deliver(self, data: bytes, datatype: Any) -> None:
        channel = self._channel
        self._room -= len(data)
        if self._room < channel._init_recv_window / 2:
            more = channel._init_recv_window - self._room
            channel.send_packet(MSG_CHANNEL_WINDOW_ADJUST, UInt32(more))
            channel._recv_window += more
            self._room += more
        if channel._session is not None:
            channel._session.data_received(data, datatype)


class Gcm:
    """Replaces asyncssh's cipher object of a connection.

    `open` decrypts a packet. If asyncssh then decrypts this packet too, it receives the result of `open`.
    """

    def __init__(self, encryption: GCMEncryption) -> None:
        self._cipher = encryption._cipher
        self._key = AESGCM(self._cipher._key)
        self._packet: bytes | None = None

    def open(self, packet: bytes | memoryview) -> bytes | None:
        """Decrypt a packet. Return None if its authentication tag is wrong."""
        try:
            self._packet = self._key.decrypt(self._cipher._iv, packet[_LENGTH_SIZE:], packet[:_LENGTH_SIZE])
        except InvalidTag:
            self._packet = None
        self._cipher._update_iv()
        return self._packet

    def decrypt_header(self, _seq: int, first: bytes, length: int) -> tuple[bytes, bytes]:
        return first, first[:length]

    def decrypt_packet(self, _seq: int, _first: bytes, _rest: bytes, _length: int, _mac: bytes) -> bytes | None:
        return self._packet


class _Environment(dict[Any, Any]):
    """Replaces the environment of an SSH session. Passes each variable to `Client.on_variable`, and stores none."""

    def __init__(self, owner: Client) -> None:
        super().__init__()
        self._owner = owner

    def __setitem__(self, key: Any, value: Any) -> None:
        self._owner.on_variable(key.decode(errors="replace"), value.decode(errors="replace"))


def _key_id(key_data: bytes) -> str:
    try:
        return str(getattr(decode_ssh_certificate(key_data), "_key_id", ""))
    except (asyncssh.KeyImportError, ValueError):
        return ""
