"""Key pairs of the three types, kept as DER, and the authorized_keys lines that certificates are asked for with."""

import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed448
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.crypto import keys, public_keys
from chalicelib.crypto.keys import PrivateKey
from tests.keypairs import RSA

MADE: dict[str, PrivateKey] = {
    "rsa": RSA,
    "ecdsa": keys.generate_ecdsa("nistp384"),
    "ed25519": keys.generate_ed25519(),
}
PRIVATE = "must be a public key; this is a private key, which you should never share"
each_type = pytest.mark.parametrize(("key_type", "key"), MADE.items(), ids=MADE)


def find_errors(text: str) -> list[str]:
    """Return the messages for a text that is refused both for a certificate and as a credential."""
    messages = []
    for read in (keys.parse_authorized_key, public_keys.fingerprint):
        with pytest.raises(ValueError, match=r"^must ") as error:
            read(text)
        messages.append(str(error.value))
    return messages


@each_type
def test_a_key_tells_its_type(key_type: str, key: PrivateKey) -> None:
    assert keys.key_type(key) == keys.key_type(key.public_key()) == key_type


@each_type
def test_a_key_kept_as_der_is_the_same_afterwards(key_type: str, key: PrivateKey) -> None:
    read = keys.from_der(keys.to_der(key))
    assert keys.authorized_key(read.public_key()) == keys.authorized_key(key.public_key())
    assert keys.to_der(read) == keys.to_der(key)
    assert len(keys.to_der(key)) <= 2400, "which the vault takes"


@each_type
def test_a_public_key_is_read_from_the_line_it_was_written_as(key_type: str, key: PrivateKey) -> None:
    line = keys.authorized_key(key.public_key()) + " and a comment\n"
    read = keys.parse_authorized_key(line)
    assert read.line == line
    assert read.key == key.public_key()


def test_a_damaged_key_and_one_of_another_type_are_refused() -> None:
    der = keys.to_der(MADE["ed25519"])
    other = ed448.Ed448PrivateKey.generate().private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    for wrong in (b"", der[:-1], other):
        with pytest.raises(ValueError, match=r"."):
            keys.from_der(wrong)


@pytest.mark.parametrize(
    "form", ["{}", "{} ", "{}\t me@laptop", "  {}  grüße 🦊\u00a0da\r\n", "{} -----BEGIN PRIVATE KEY-----"]
)
def test_spaces_and_tabs_part_a_key_from_its_comment(form: str) -> None:
    kind, encoded = keys.authorized_key(MADE["ecdsa"].public_key()).split()
    for line in (form.format(f"{kind} {encoded}"), form.format(f"{kind} \t {encoded}")):
        assert keys.parse_authorized_key(line).key == MADE["ecdsa"].public_key()
        assert public_keys.fingerprint(line) == public_keys.fingerprint(f"{kind} {encoded}")


@pytest.mark.parametrize("space", ["\u00a0", "\u2003", "\u3000", "\u200b", "\ufeff"])
def test_no_other_white_space_parts_the_words_of_a_key(space: str) -> None:
    kind, encoded = keys.authorized_key(MADE["ed25519"].public_key()).split()
    for line in (
        f"{kind}{space}{encoded}",
        f"{kind} {encoded}{space}",
        f"{kind} {encoded}{space}me",
        f"{kind} {space}{encoded}",
    ):
        find_errors(line)
    for line in (f"{space}{kind} {encoded}", f"{kind}{space} {encoded}"):
        find_errors(line)


@pytest.mark.parametrize("tail", ["!!!", "#me", ",", "====", "_-", "\u00e9", "=AAAA"])
def test_what_follows_the_base64_of_a_key_is_not_taken(tail: str) -> None:
    for private_key in MADE.values():
        find_errors(keys.authorized_key(private_key.public_key()) + tail)
        find_errors(keys.authorized_key(private_key.public_key()) + tail + " me@laptop")


@pytest.mark.parametrize("character", ["\0", "\1", "\x0b", "\x0c", "\x1b", "\x1c", "\x7f", "\x85", "\x9b", "\u2028"])
def test_control_characters_are_not_taken_in_a_comment(character: str) -> None:
    line = keys.authorized_key(MADE["ed25519"].public_key())
    for comment in (f"me{character}", f"{character}me", character):
        assert set(find_errors(f"{line} {comment}")) == {"must be text without control characters"}


@pytest.mark.needs("ssh")
@pytest.mark.parametrize("form", ["", "RFC4716", "PEM", "PKCS8"])
def test_a_private_key_is_called_one_and_not_repeated(tmp_path: Path, form: str) -> None:
    options = ["-m", form] if form else []
    command = ["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-C", "me", *options, "-f", str(tmp_path / "key")]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    private, public = (tmp_path / "key").read_text(), (tmp_path / "key.pub").read_text()
    for text in (
        private,
        f"\n  {private}",
        private.replace("\n", "\r\n"),
        private.replace("\n", r"\n"),
        public + private,
    ):
        assert set(find_errors(text)) == {PRIVATE}
    for text in ("PuTTY-User-Key-File-3: ssh-ed25519\n…", "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n…"):
        assert set(find_errors(text)) == {PRIVATE}


@settings(max_examples=200, derandomize=True)
@given(st.text(), st.sampled_from(["ssh-rsa", "ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-dss", ""]), st.binary())
def test_any_line_is_a_key_or_a_value_error(text: str, kind: str, blob: bytes) -> None:
    for line in (text, f"{kind} {text}", f"{kind} {blob.hex()}", f"{kind} AAAA{text}"):
        with suppress(ValueError):
            keys.parse_authorized_key(line)


@settings(max_examples=200, derandomize=True)
@given(index=st.integers(0, 10_000), value=st.integers(0, 255), kind=st.sampled_from([*MADE]))
def test_a_line_with_one_wrong_character_is_a_key_or_a_value_error(index: int, value: int, kind: str) -> None:
    line = keys.authorized_key(MADE[kind].public_key())
    index %= len(line)
    with suppress(ValueError):
        keys.parse_authorized_key(line[:index] + chr(value) + line[index + 1 :])
