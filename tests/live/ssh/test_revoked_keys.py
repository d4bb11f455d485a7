"""Whom a real OpenSSH server refuses once our list revokes them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from chalicelib.crypto import keys, krl, public_keys, ssh_certificates
from chalicelib.crypto.keys import PrivateKey
from chalicelib.crypto.krl import Revoked
from chalicelib.crypto.ssh_certificates import UserCertificate
from tests.keypairs import RSA
from tests.live.ssh import keygen, sshd
from tests.live.ssh.keygen import KeyPair
from tests.live.ssh.sshd import HOST, USER, Login, Signed, Sshd, accepted

NOW = datetime.now(UTC)
AUTHORITIES: dict[str, PrivateKey] = {
    "ed25519": keys.generate_ed25519(),
    "ecdsa": keys.generate_ecdsa("nistp256"),
    "rsa": RSA,
}
OLD, NEW = AUTHORITIES["ed25519"], AUTHORITIES["rsa"]  # in the middle of a rotation
REFUSED = Login(255, "", f"{USER}@{HOST}: Permission denied (publickey).\n", "")
each_authority = pytest.mark.parametrize("authority", AUTHORITIES.values(), ids=AUTHORITIES)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """Yield a server that trusts all authorities and reads the list of revoked keys at every login."""
    folder = tmp_path_factory.mktemp("revoking")
    (folder / "revoked").write_bytes(revocations())
    with sshd.running(folder, f"RevokedKeys {folder}/revoked") as running_server:
        for authority in AUTHORITIES.values():
            running_server.trust({"public_key": line(authority)})
        yield running_server


@pytest.fixture(scope="module")
def laptops(tmp_path_factory: pytest.TempPathFactory) -> tuple[KeyPair, KeyPair]:
    folder = tmp_path_factory.mktemp("laptops")
    return keygen.generate(folder / "one", "ed25519", 256), keygen.generate(folder / "two", "ecdsa", 256)


def line(key: PrivateKey) -> str:
    return keys.authorized_key(key.public_key())


def revocations(*certificates: Revoked, lost_pair: KeyPair | None = None) -> bytes:
    fingerprints = [public_keys.digest(public_keys.fingerprint(lost_pair.public))] if lost_pair else []
    return krl.make(version=1, generated=NOW, certificates=certificates, fingerprints=fingerprints)


def sign(laptop: KeyPair, authority: PrivateKey, serial: int) -> Signed:
    """Return a key signed as the service would sign it, as far as a login needs it."""
    certificate = UserCertificate(
        key_id=f"sucrt_{serial}",
        serial=serial,
        public_key=keys.parse_authorized_key(laptop.public).key,
        principals=[USER],
        valid_after=NOW - timedelta(hours=1),
        valid_until=NOW + timedelta(hours=1),
        critical_options={},
        extensions={},
    )
    line = ssh_certificates.sign(certificate, authority)
    return Signed(laptop, {"id": certificate.key_id, "certificate": line})


def logins(server: Sshd, content: bytes, *certificates: Signed) -> list[Login]:
    (server.folder / "revoked").write_bytes(content)
    return [server.login(certificate, "echo in") for certificate in certificates]


@each_authority
def test_a_certificate_lets_in_until_the_list_revokes_it(
    server: Sshd, laptops: tuple[KeyPair, KeyPair], authority: PrivateKey
) -> None:
    first, two = sign(laptops[0], authority, 2**64 - 1), sign(laptops[0], authority, 2**64 - 2)
    assert logins(server, revocations(), first, two) == [accepted("in\n"), accepted("in\n")]
    revoked = revocations(Revoked(line(authority), [2**64 - 1]))
    assert logins(server, revoked, first, two) == [REFUSED, accepted("in\n")]
    assert logins(server, revocations(Revoked(line(authority), [])), first, two) == [accepted("in\n"), accepted("in\n")]


def test_a_lost_key_lets_nobody_in_whichever_authority_certified_it(
    server: Sshd, laptops: tuple[KeyPair, KeyPair]
) -> None:
    lost_laptop, other_laptop = laptops
    certificates = [sign(lost_laptop, OLD, 1), sign(lost_laptop, NEW, 2), sign(other_laptop, OLD, 3)]
    assert logins(server, revocations(lost_pair=lost_laptop), *certificates) == [REFUSED, REFUSED, accepted("in\n")]


def test_one_list_serves_two_authorities_during_a_rotation(server: Sshd, laptops: tuple[KeyPair, KeyPair]) -> None:
    merged = revocations(Revoked(line(OLD), [1]), Revoked(line(NEW), [2]))
    certificates = [sign(laptops[0], authority, serial) for authority in (OLD, NEW) for serial in (1, 2)]
    assert logins(server, merged, *certificates) == [REFUSED, accepted("in\n"), accepted("in\n"), REFUSED]


def test_a_list_of_100_000_holds_at_a_login(server: Sshd, laptops: tuple[KeyPair, KeyPair]) -> None:
    serials = [1 + 10**14 * number for number in range(100_000)]
    content = revocations(Revoked(line(OLD), serials))
    certificates = [sign(laptops[0], OLD, serials[77_777]), sign(laptops[0], OLD, serials[77_777] + 1)]
    assert logins(server, content, *certificates) == [REFUSED, accepted("in\n")]
