"""An SSH connection of asyncssh that tells a little more of itself, and takes half the time for a packet.

asyncssh passes on neither the key id of a certificate nor the host of a forwarding as it was written, which ssh wants
to read again with every connection: it would write it in lower case. It leaves a client that does not read to itself.
"""

import asyncio
import logging
from typing import Any, cast

import asyncssh
from asyncssh.constants import MSG_CHANNEL_DATA, MSG_IGNORE
from asyncssh.encryption import Encryption, GCMEncryption, encryption_needs_mac
from asyncssh.logging import SSHLogger
from asyncssh.public_key import decode_ssh_certificate

from edge.ssh.packets import Gcm, Unread, data_in

_MOST_REQUESTS = 100  # that wait for the one before them


class Client(asyncssh.SSHServer):
    """The receiver of a connection's events.

    `most_unread` are the bytes that a client may leave unread, until nothing more of it is read; with a quarter of them
    it hears `pause_writing`.
    """

    most_unread: int

    def presents(self, certificate: str) -> None:
        """Hear the key id of the certificate that comes next, empty for a plain key."""

    def proved(self) -> None:
        """Hear that the holder of the key that was asked about last has signed with it."""

    def failed(self) -> None:
        """Hear that a key was not let in."""

    def asks(self, host: str) -> None:
        """Hear the host of the forwarding that comes next."""

    def pause_writing(self) -> None:
        """Hear that the client reads more slowly than it is written to."""

    def resume_writing(self) -> None:
        """Hear that the client has caught up."""

    def not_permitted(self) -> None:
        """Hear that the certificate permits no forwarding."""


class _Log(SSHLogger):
    """The log of warnings alone: asyncssh makes the text of each line first, a tenth of what a channel costs."""

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        if level >= logging.WARNING:
            super().log(level, msg, *args, **kwargs)

    def get_child(self, child: str = "", context: str = "") -> SSHLogger:
        return self


_LOG = _Log()


class Connection(asyncssh.SSHServerConnection):
    """An SSH connection that reports more events to its Client."""

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
        if len(self._global_request_queue) > _MOST_REQUESTS:
            self.disconnect(asyncssh.DISC_BY_APPLICATION, "Too many requests at once.")

    def _recv_packet(self) -> bool:
        """Read a packet: that of a channel's data at once, any other as asyncssh does."""
        if isinstance(self._recv_encryption, GCMEncryption):
            self._recv_encryption = cast(Encryption, Gcm(self._recv_encryption))
        end = 4 + self._pktlen + self._recv_macsize - self._recv_blocksize
        if not isinstance(self._recv_encryption, Gcm) or len(self._inpbuf) < end:
            return super()._recv_packet()
        found = data_in(self._recv_encryption.open(cast(Unread, self._inpbuf).behind(self._packet, end)))
        channel = self._channels.get(found[0]) if found and self._auth_complete else None
        if not (found and channel) or channel._recv_state != "open" or len(found[1]) > channel._recv_window:
            return super()._recv_packet()
        self._inpbuf, self._packet = self._inpbuf[end:], b""
        channel._accept_data(found[1])
        self._finish_recv_packet(MSG_CHANNEL_DATA, self._recv_seq)
        return True

    def create_server_channel(self, *arguments: Any, **named: Any) -> "asyncssh.SSHServerChannel[Any]":
        channel = super().create_server_channel(*arguments, **named)
        channel._env = _Nothing()
        return channel

    def _send_kexinit(self) -> None:
        """Offer OpenSSH no cipher that needs a MAC besides: it would take one, at a third more of the time here."""
        if b"OpenSSH" in self._client_version:
            self._enc_algs = [it for it in self._enc_algs if not encryption_needs_mac(it)]
        super()._send_kexinit()

    def send_packet(self, pkttype: int, *args: bytes, handler: Any = None) -> None:
        """Send a packet, without the empty one before each that guards CBC ciphers: none is offered here."""
        if pkttype != MSG_IGNORE:
            super().send_packet(pkttype, *args, handler=handler)

    def _send(self, data: bytes) -> None:
        """Gather what is sent within one turn of the loop: a system call costs more than a packet."""
        if not self._gathered:
            self._loop.call_soon(self._flush)
        self._gathered.append(data)

    def _flush(self) -> None:
        gathered, self._gathered = b"".join(self._gathered), []
        self._wire.write(gathered)

    async def validate_public_key(self, username: str, key_data: bytes, msg: bytes, signature: bytes) -> bool:
        self._owner.presents(_key_id(key_data))
        valid = await super().validate_public_key(username, key_data, msg, signature)
        if not valid:
            self._owner.failed()
        elif msg:
            self._owner.proved()
        return valid

    def _process_tcpip_forward_global_request(self, packet: Any) -> None:
        remaining = packet.get_remaining_payload()
        self._owner.asks(remaining[4 : 4 + int.from_bytes(remaining[:4])].decode(errors="replace"))
        if not self.check_certificate_permission("port-forwarding"):
            self._owner.not_permitted()
        super()._process_tcpip_forward_global_request(packet)


def widen(channel: "asyncssh.SSHTCPChannel[bytes]", window: int) -> None:
    """Let a client send so many bytes before they are read; it hears of that as it is read on."""
    channel._init_recv_window = window


class _Nothing(dict[Any, Any]):
    """The environment of a session, of which asyncssh would keep as much as a client sends."""

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


def _key_id(key_data: bytes) -> str:
    try:
        return str(getattr(decode_ssh_certificate(key_data), "_key_id", ""))
    except (asyncssh.KeyImportError, ValueError):
        return ""
