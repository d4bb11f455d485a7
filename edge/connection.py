"""An SSH connection of asyncssh that tells a little more of itself: what a certificate is called, what failed, and why.

asyncssh passes on neither the key id of a certificate nor the host of a forwarding as it was written, which ssh wants
to read again with every connection: it would write it in lower case.
"""

from typing import Any

import asyncssh
from asyncssh.public_key import decode_ssh_certificate


class Client(asyncssh.SSHServer):
    """What a connection tells."""

    def presents(self, certificate: str) -> None:
        """Hear the key id of the certificate that comes next, empty for a plain key."""

    def proved(self) -> None:
        """Hear that the holder of the key that was asked about last has signed with it."""

    def failed(self) -> None:
        """Hear that a key was not let in."""

    def asks(self, host: str) -> None:
        """Hear the host of the forwarding that comes next."""

    def not_permitted(self) -> None:
        """Hear that the certificate permits no forwarding."""


class Connection(asyncssh.SSHServerConnection):
    """The same for every client; what it tells goes to its Client."""

    _owner: Client

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


def _key_id(key_data: bytes) -> str:
    try:
        return str(getattr(decode_ssh_certificate(key_data), "_key_id", ""))
    except (asyncssh.KeyImportError, ValueError):
        return ""
