"""Every type of key, and every type of authority: `ssh-keygen` agrees, and the server lets the holder in."""

from typing import Any

import pytest

from tests.live.ssh.conftest import Sign
from tests.live.ssh.keygen import Certificate
from tests.live.ssh.sshd import Sshd, accepted

# Each type signs another; that `ssh-keygen` reads all pairs is tried where certificates are created.
COMBINATIONS = [
    ("rsa", "ecdsa"),
    ("ecdsa", "ed25519"),
    ("ed25519", "rsa"),
    ("nistp384", "nistp521"),
    ("nistp521", "nistp384"),
]


@pytest.mark.parametrize(("key", "authority"), COMBINATIONS)
def test_a_key_of_any_type_signed_by_an_authority_of_any_type_lets_in(
    server: Sshd, sign: Sign, authorities: dict[str, Any], key: str, authority: str
) -> None:
    identity = sign(key=key, authority=authority)
    read = Certificate.of(identity.certificate["certificate"])
    assert read == Certificate.promised(identity.certificate, authorities[authority], serial=read.serial)
    assert server.login(identity, "echo in") == accepted("in\n")
