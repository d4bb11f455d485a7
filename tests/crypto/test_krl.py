"""Lists of revoked certificates and keys, as `ssh-keygen` reads them and beside those that it makes itself."""

import random
import re
import subprocess
import time
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.crypto import keys, krl, public_keys, ssh_certificates
from chalicelib.crypto.keys import PrivateKey
from chalicelib.crypto.krl import Revoked
from chalicelib.crypto.ssh_certificates import UserCertificate
from tests.keypairs import OTHER_RSA, RSA
from tests.needs import need

AUTHORITIES: dict[str, PrivateKey] = {
    "ed25519": keys.generate_ed25519(),
    "ecdsa": keys.generate_ecdsa("nistp384"),
    "rsa": RSA,
}
HOLDERS: dict[str, PrivateKey] = {
    "ed25519": keys.generate_ed25519(),
    "ecdsa": keys.generate_ecdsa("nistp521"),
    "rsa": OTHER_RSA,
}
OWN, OTHER = AUTHORITIES["ed25519"], AUTHORITIES["ecdsa"]
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOLDER = keys.generate_ed25519()
CERTIFICATE = UserCertificate(
    key_id="sucrt_1",
    serial=1,
    public_key=HOLDER.public_key(),
    principals=["root"],
    valid_after=datetime(1970, 1, 1, tzinfo=UTC),
    valid_until=datetime(9999, 12, 31, tzinfo=UTC),
    critical_options={},
    extensions={},
)
LAST = 2**64 - 1
each_authority = pytest.mark.parametrize("authority", AUTHORITIES.values(), ids=AUTHORITIES)


def line(key: PrivateKey) -> str:
    return keys.authorized_key(key.public_key())


def digest(key: PrivateKey) -> bytes:
    return public_keys.digest(public_keys.fingerprint(line(key)))


def build_krl(*certificates: Revoked, fingerprints: Collection[bytes] = ()) -> bytes:
    return krl.make(version=1, generated=NOW, certificates=certificates, fingerprints=fingerprints)


def keygen(*arguments: object, status: int = 0) -> str:
    need("ssh")
    command = ["ssh-keygen", *map(str, arguments)]
    process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env={"TZ": "UTC"})
    assert process.returncode == status, process.stderr
    return process.stdout


class Judge:
    """Asks `ssh-keygen -Q` about lists, and about keys and certificates that it names by a word."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_revoked(self, revocations: bytes | Path, **candidates: str) -> set[str]:
        """Return the names of those asked about that a list revokes."""
        for name, text in candidates.items():
            (self.folder / name).write_text(f"{text.split()[0]} {text.split()[1]}\n")
        file = revocations if isinstance(revocations, Path) else self.file(revocations)
        need("ssh")
        command: list[str | Path] = ["ssh-keygen", "-Q", "-f", file, *(self.folder / name for name in candidates)]
        process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        verdicts = dict(re.findall(r"([^/\n]+) \([^)]*\): (ok|REVOKED)", process.stdout))
        assert set(verdicts) == set(candidates), process.stderr
        return {name for name, verdict in verdicts.items() if verdict == "REVOKED"}

    def list_lines(self, revocations: bytes) -> list[str]:
        """Return the lines of a list that are not blank."""
        return list(filter(None, keygen("-Q", "-l", "-f", self.file(revocations)).splitlines()))

    def file(self, content: bytes) -> Path:
        (self.folder / "krl").write_bytes(content)
        return self.folder / "krl"

    def reference(self, authority: PrivateKey, specification: str) -> Path:
        """Return the list that `ssh-keygen -k` makes."""
        (self.folder / "ca.pub").write_text(line(authority))
        (self.folder / "specification").write_text(specification)
        keygen("-k", "-f", self.folder / "reference", "-s", self.folder / "ca.pub", self.folder / "specification")
        return self.folder / "reference"


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(tmp_path_factory.mktemp("krl"))


def sign_certificate(serial: int, authority: PrivateKey = OWN, subject_key: PrivateKey = HOLDER) -> str:
    certificate = replace(CERTIFICATE, serial=serial, public_key=subject_key.public_key())
    return ssh_certificates.sign(certificate, authority)


def draw_serials(count: int) -> list[int]:
    """Serials as the service draws them."""
    numbers = random.Random(count)
    return [numbers.randrange(1, 2**64) for _ in range(count)]


def expand_serials(lines: list[str]) -> list[int]:
    """Return the serials in the lines of a list."""
    serials: list[int] = []
    for first, last in re.findall(r"^serial: (\d+)(?:-(\d+))?$", "\n".join(lines), flags=re.MULTILINE):
        serials.extend(range(int(first), int(last or first) + 1))
    return serials


def test_an_empty_list_is_a_list_that_revokes_nothing(judge: Judge) -> None:
    empty = ["# KRL version 1", "# Generated at 20260131T120000"]
    assert judge.list_lines(build_krl()) == judge.list_lines(build_krl(Revoked(line(OWN), []))) == empty
    assert judge.find_revoked(build_krl(), certificate=sign_certificate(1), key=line(HOLDER)) == set()


def test_a_list_tells_its_version_its_date_and_its_comment(judge: Judge) -> None:
    wide = krl.make(version=LAST, generated=NOW, certificates=[], comment="größer")
    assert judge.list_lines(wide)[:2] == [f"# KRL version {LAST}", "# Generated at 20260131T120000"]
    assert "größer".encode() in wide


@each_authority
@pytest.mark.parametrize("count", [1, 1_000])
def test_certificates_in_the_list_are_revoked_and_others_are_not(
    judge: Judge, authority: PrivateKey, count: int
) -> None:
    serials = draw_serials(count)
    revocations = build_krl(Revoked(line(authority), serials))
    candidates = {
        "first": sign_certificate(serials[0], authority),
        "last": sign_certificate(serials[-1], authority),
        "next": sign_certificate(serials[0] + 1, authority),
        "none": sign_certificate(0, authority),
        "stranger": sign_certificate(serials[0], OTHER if authority is not OTHER else OWN),
        "key": line(HOLDER),
    }
    assert judge.find_revoked(revocations, **candidates) == {"first", "last"}
    assert expand_serials(judge.list_lines(revocations)) == sorted(serials)
    reference = judge.reference(authority, "".join(f"serial: {serial}\n" for serial in serials))
    assert judge.find_revoked(reference, **candidates) == {"first", "last"}
    assert len(revocations) <= reference.stat().st_size


def test_a_list_of_100_000_is_made_in_time_and_fits_an_answer(judge: Judge) -> None:
    serials = draw_serials(100_000)
    started = time.process_time()
    revocations = build_krl(Revoked(line(OWN), serials))
    assert time.process_time() - started < 1
    assert len(revocations) * 4 / 3 < 1_100_000  # in base64
    candidates = {"middle": sign_certificate(serials[50_000]), "next": sign_certificate(serials[50_000] + 1)}
    assert judge.find_revoked(revocations, **candidates) == {"middle"}
    assert expand_serials(judge.list_lines(revocations)) == sorted(serials)


SHAPES = {
    "one": [7],
    "the first and the last": [1, LAST],
    "the last ones": [LAST - 1, LAST],
    "one range": range(1, 100_001),
    "two ranges": [*range(5, 60_000), *range(60_002, 120_000)],
    "two beside each other": [1, 2],
    "three beside each other": [1, 2, 3],
    "every other one": range(1, 60_000, 2),
    "one in seventy": range(1, 60_000, 70),
    "everything": [*range(2**32, 2**32 + 50, 3), 2**63, *range(2**63 + 9, 2**63 + 99), LAST],
    "given twice": [9, 9, 3, 9],
}


@pytest.mark.parametrize("serials", SHAPES.values(), ids=SHAPES)
def test_serials_that_stand_close_take_little_room(judge: Judge, serials: Collection[int]) -> None:
    revocations = build_krl(Revoked(line(OWN), serials))
    assert expand_serials(judge.list_lines(revocations)) == sorted(set(serials))
    reference = judge.reference(OWN, "".join(f"serial: {serial}\n" for serial in serials))
    assert len(revocations) < reference.stat().st_size * 1.01 + 5  # the head of a list that a bitmap would have saved


@settings(max_examples=30)
@given(st.lists(st.integers(1, 400) | st.integers(2**64 - 400, LAST) | st.integers(1, LAST), max_size=120))
def test_whatever_is_revoked_stands_in_the_list_and_nothing_else(judge: Judge, serials: list[int]) -> None:
    assert expand_serials(judge.list_lines(build_krl(Revoked(line(OWN), serials)))) == sorted(set(serials))


def test_lists_of_two_authorities_are_one(judge: Judge) -> None:
    revocations = build_krl(
        Revoked(line(OWN), [1, 2]), Revoked(line(AUTHORITIES["rsa"]), [2, 3]), Revoked(line(OTHER), [])
    )
    candidates = {
        f"{name}-{serial}": sign_certificate(serial, authority)
        for name, authority in AUTHORITIES.items()
        for serial in (1, 2, 3)
    }
    assert judge.find_revoked(revocations, **candidates) == {"ed25519-1", "ed25519-2", "rsa-2", "rsa-3"}


def test_an_authority_that_is_named_twice_has_all_its_certificates_revoked(judge: Judge) -> None:
    revocations = build_krl(Revoked(line(OWN), [1]), Revoked(line(OWN), [3]))
    candidates = {"one": sign_certificate(1), "two": sign_certificate(2), "three": sign_certificate(3)}
    assert judge.find_revoked(revocations, **candidates) == {"one", "three"}


@pytest.mark.parametrize("subject_key", HOLDERS.values(), ids=HOLDERS)
def test_a_revoked_key_is_refused_with_all_its_certificates(judge: Judge, subject_key: PrivateKey) -> None:
    key_digest = digest(subject_key)
    candidates = {
        "key": line(subject_key),
        "own": sign_certificate(1, OWN, subject_key),
        "other": sign_certificate(2, OTHER, subject_key),
        "else": sign_certificate(1),
        "keyelse": line(HOLDER),
    }
    assert judge.find_revoked(build_krl(fingerprints=[key_digest]), **candidates) == {"key", "own", "other"}
    assert judge.find_revoked(
        build_krl(Revoked(line(OWN), [1]), fingerprints=[key_digest, key_digest]), **candidates
    ) == {"key", "own", "other", "else"}
    assert judge.list_lines(build_krl(fingerprints=[key_digest]))[2:] == [f"hash: SHA256:{key_digest.hex()}"]
    reference = judge.reference(OWN, f"hash: {public_keys.fingerprint(line(subject_key))}\n")
    assert judge.find_revoked(reference, **candidates) == {"key", "own", "other"}


def test_an_authority_whose_key_is_revoked_lets_nobody_in(judge: Judge) -> None:
    candidates = {"own": sign_certificate(1), "other": sign_certificate(1, OTHER)}
    assert judge.find_revoked(build_krl(fingerprints=[digest(OWN)]), **candidates) == {"own"}


def test_what_would_make_a_list_that_nobody_can_read_is_a_value_error() -> None:
    for serial in (0, -1, 2**64):
        with pytest.raises(ValueError, match="serial numbers must be from 1 to"):
            build_krl(Revoked(line(OWN), [5, serial]))
    with pytest.raises(ValueError, match="each fingerprint must have 32 bytes"):
        build_krl(fingerprints=[bytes(32), bytes(20)])
    with pytest.raises(ValueError, match="NUL"):
        krl.make(version=1, generated=NOW, certificates=[], comment="a\0b")
    for version, date in ((-1, NOW), (2**64, NOW), (1, datetime(1969, 1, 1, tzinfo=UTC))):
        with pytest.raises(ValueError, match="64 bits"):
            krl.make(version=version, generated=date, certificates=[])
