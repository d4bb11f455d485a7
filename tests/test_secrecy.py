"""What the whole run said, in logs and in refusals, holds no secret. Runs last, over all that the other tests did."""

import base64
from collections.abc import Iterator
from pathlib import Path

from chalicelib.crypto import keys
from chalicelib.storage import vault
from tests.doors import RECORD, Client, Record

START = 11  # characters; what is shorter stands in a text by coincidence
SECRET = "2NeverAKeyOfThisServiceXYZ0_0123456789abcdef0123456789abcdef"


def test_no_log_line_and_no_refusal_of_this_run_holds_a_secret(admin: Client) -> None:
    admin.create("/ssh_certificate_authorities", {})
    admin.with_token(SECRET).get("/api_keys")
    assert RECORD.logs
    assert RECORD.errors
    assert leaks(RECORD) == []


def test_no_log_line_of_this_run_names_a_private_key() -> None:
    assert [line for line in logged(RECORD) if "PRIVATE KEY" in line] == []


def test_a_secret_that_was_said_would_be_found() -> None:
    der = keys.to_der(keys.generate_ed25519())
    context = {"account": "acct_1", "resource": "sshca_1"}
    sealed = [(vault.seal(der, context), context)]
    for said in (
        f"Authorization: Bearer {SECRET}",
        f"deep in{SECRET}side",
        "-----BEGIN PRIVATE KEY-----\nMC4C",
        r'{"msg":"-----BEGIN RSA PRIVATE KEY-----\nMC4C"}',
        f"key {der.hex()}",
        f"key {der.hex().upper()}",
        f"key {base64.b64encode(der).decode()}",
        f"key {base64.urlsafe_b64encode(der).decode()}",
        f"key {der!r}",
        repr([SECRET, {"key": der}]),
    ):
        assert leaks(Record({SECRET}, sealed, logs=["all is well", said])) == [said]
        assert leaks(Record({SECRET}, sealed, errors=[said])) == [said]


def test_what_is_no_secret_is_not_taken_for_one() -> None:
    said = "Send the header 'Authorization: Bearer <token of an API key>'. Traceback: private_key"
    assert leaks(Record({"", "x", "Bearer"}, logs=[said], errors=[said])) == []


def test_log_files_are_searched_too(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_text(f"all is well\nBearer {SECRET}\n")
    assert leaks(Record({SECRET}, log_files=[file])) == [f"Bearer {SECRET}"]


def leaks(record: Record) -> list[str]:
    """The texts of a record that hold a secret of it."""
    by_start: dict[str, list[str]] = {}
    for secret in searched(record):
        by_start.setdefault(secret[:START], []).append(secret)
    return [text for text in (*logged(record), *record.errors) if any(secrets_in(text, by_start))]


def secrets_in(text: str, by_start: dict[str, list[str]]) -> Iterator[str]:
    """The secrets in a text: one look at each place, however many secrets there are."""
    for place in range(len(text)):
        for secret in by_start.get(text[place : place + START], ()):
            if text.startswith(secret, place):
                yield secret


def logged(record: Record) -> Iterator[str]:
    yield from record.logs
    for file in record.log_files:
        # `make run` prints the first key for the person at the terminal: that is what it is for.
        yield from (line for line in file.read_text(errors="replace").splitlines() if not is_welcome(line))


def is_welcome(line: str) -> bool:
    return line.startswith(("  API key   ", "  curl -H 'Authorization: Bearer "))


def searched(record: Record) -> Iterator[str]:
    """What no text may hold: the secrets, and every form in which the bytes of a private key could be written."""
    yield from ("PRIVATE KEY-----\n", r"PRIVATE KEY-----\n")  # alone, it can be the name of a field that is echoed
    for sealed, context in record.sealed:
        plaintext = vault.unseal(sealed, context, bytes)
        yield plaintext.hex()
        yield plaintext.hex().upper()
        yield base64.b64encode(plaintext).decode().rstrip("=")
        yield base64.urlsafe_b64encode(plaintext).decode().rstrip("=")
        yield repr(plaintext)[2:-1]
    yield from (secret for secret in record.secrets if len(secret) >= START)
