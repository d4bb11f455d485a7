"""Every type of key, and every type of authority: `ssh-keygen` agrees, and the server lets the holder in."""

from typing import Any

import pytest

from tests.live.ssh.conftest import Sign
from tests.live.ssh.keygen import Certificate
from tests.live.ssh.sshd import Sshd, accepted

# Each type signs another; that `ssh-keygen` reads all pairs is tried where certificates are created.
SIGNED = [
    ("rsa", "ecdsa"),
    ("ecdsa", "ed25519"),
    ("ed25519", "rsa"),
    ("nistp384", "nistp521"),
    ("nistp521", "nistp384"),
]


@pytest.mark.parametrize(("key", "authority"), SIGNED)
def test_a_key_of_any_type_signed_by_an_authority_of_any_type_lets_in(
    server: Sshd, sign: Sign, authorities: dict[str, Any], key: str, authority: str
) -> None:
    signed = sign(key=key, authority=authority)
    read = Certificate.of(signed.certificate["certificate"])
    assert read == Certificate.promised(signed.certificate, authorities[authority], serial=read.serial)
    assert server.login(signed, "echo in") == accepted("in\n")
