"""What the tests with OpenSSH share: one server, authorities it trusts, key pairs, and a way to have them signed."""

from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from tests.live.ssh import keygen, sshd
from tests.live.ssh.keygen import KeyPair
from tests.live.ssh.sshd import USER, Signed, Sshd
from tests.transports import Client

AUTHORITIES = {
    "ed25519": {},
    "ecdsa": {"private_key_type": "ecdsa"},
    "nistp384": {"private_key_type": "ecdsa", "elliptic_curve": "nistp384"},
    "nistp521": {"private_key_type": "ecdsa", "elliptic_curve": "nistp521"},
    "rsa": {"private_key_type": "rsa", "key_size": 2048},
}
KEYS = {
    "ed25519": ("ed25519", 256),
    "ecdsa": ("ecdsa", 256),
    "nistp384": ("ecdsa", 384),
    "nistp521": ("ecdsa", 521),
    "rsa": ("rsa", 2048),
}


class Sign(Protocol):
    """Asks the service to sign one of the key pairs for the user who runs the tests; fields of the body may follow."""

    def __call__(self, *, key: str = "ed25519", authority: str = "ed25519", **fields: Any) -> Signed: ...


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd.running(tmp_path_factory.mktemp("sshd")) as running_server:
        yield running_server


@pytest.fixture(scope="session")
def authorities(http: Client, server: Sshd) -> dict[str, Any]:
    """Create an authority of each kind, all of them trusted by the server; return them by name."""
    authorities = {name: http.create("/ssh_certificate_authorities", body) for name, body in AUTHORITIES.items()}
    for authority in authorities.values():
        server.trust(authority)
    return authorities


@pytest.fixture(scope="session")
def key_pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, KeyPair]:
    folder = tmp_path_factory.mktemp("keys")
    return {name: keygen.generate(folder / name, kind, bits) for name, (kind, bits) in KEYS.items()}


@pytest.fixture(scope="session")
def sign(http: Client, authorities: dict[str, Any], key_pairs: dict[str, KeyPair]) -> Sign:
    def ask(*, key: str = "ed25519", authority: str = "ed25519", **fields: Any) -> Signed:
        request = {
            "ssh_certificate_authority_id": authorities[authority]["id"],
            "public_key": key_pairs[key].public,
            "principals": [USER],
        }
        return Signed(key_pairs[key], http.create("/ssh_user_certificates", request | fields))

    return ask
