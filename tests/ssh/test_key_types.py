"""Every type of key signed by every type of authority: `ssh-keygen` agrees, and the server lets the holder in."""

from itertools import product
from typing import Any

import pytest

from tests.ssh.conftest import Sign
from tests.ssh.keygen import Certificate, Fingerprint
from tests.ssh.sshd import Sshd, accepted

TYPES = ("rsa", "ecdsa", "ed25519")
SIZES = (("nistp384", "nistp521"), ("nistp521", "nistp384"), ("ed25519", "rsa-2048"))


@pytest.mark.parametrize(("key", "authority"), [*product(TYPES, TYPES), *SIZES])
def test_a_key_of_any_type_signed_by_an_authority_of_any_type_lets_in(
    server: Sshd, sign: Sign, authorities: dict[str, Any], key: str, authority: str
) -> None:
    signed = sign(key=key, authority=authority)
    read = Certificate.of(signed.certificate["certificate"])
    assert read == Certificate.promised(signed.certificate, authorities[authority], serial=read.serial)
    assert server.login(signed, "echo in") == accepted("in\n")


@pytest.mark.parametrize(
    ("key", "key_type"),
    [("rsa", "rsa"), ("ecdsa", "ecdsa"), ("nistp384", "ecdsa"), ("nistp521", "ecdsa"), ("ed25519", "ed25519")],
)
def test_the_response_names_the_type_of_the_key(sign: Sign, key: str, key_type: str) -> None:
    assert sign(key=key).certificate["key_type"] == key_type


@pytest.mark.parametrize(
    ("authority", "key_type", "bits"),
    [
        ("rsa", "rsa", 4096),
        ("rsa-2048", "rsa", 2048),
        ("ecdsa", "ecdsa", 256),
        ("nistp384", "ecdsa", 384),
        ("nistp521", "ecdsa", 521),
        ("ed25519", "ed25519", 256),
    ],
)
def test_an_authority_has_the_type_and_size_that_were_asked_for(
    authorities: dict[str, Any], authority: str, key_type: str, bits: int
) -> None:
    made = authorities[authority]
    read = Fingerprint.of(made["public_key"])
    assert made["key_type"] == key_type
    assert read == Fingerprint(bits, read.sha256, comment="no comment", kind=key_type.upper())
