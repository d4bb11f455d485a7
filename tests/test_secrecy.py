"""That a secret would be found wherever it is said: conftest.py looks for them when all tests of a process are done."""

import base64
from pathlib import Path

from chalicelib.crypto import keys
from chalicelib.storage import vault
from tests.secrecy import leaks
from tests.transports import RECORD, Client, Record

SECRET = "2NeverAKeyOfThisServiceXYZ0_0123456789abcdef0123456789abcdef"


def test_refusals_and_log_lines_are_recorded_and_secrets_known(admin: Client) -> None:
    admin.create("/ssh_certificate_authorities", {})
    admin.with_token(SECRET).get("/api_keys")
    assert RECORD.logs
    assert RECORD.answers
    assert {admin.token, SECRET} <= RECORD.secrets


def test_a_secret_that_was_said_would_be_found() -> None:
    der = keys.to_der(keys.generate_ed25519())
    context = {"account": "acct_1", "resource": "sshca_1"}
    sealed = [(vault.seal(der, context), context)]
    for text in (
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
        assert leaks(Record({SECRET}, sealed, logs=["all is well", text])) == [text]
        assert leaks(Record({SECRET}, sealed, answers=[text])) == [text]
        assert leaks(Record({SECRET}, sealed, events=[text])) == [text]


def test_what_is_no_secret_is_not_taken_for_one() -> None:
    text = "Send the header 'Authorization: Bearer <token of an API key>'. Traceback: private_key"
    assert leaks(Record({"", "x", "Bearer"}, logs=[text], answers=[text])) == []


def test_log_files_are_searched_too(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_text(f"all is well\nBearer {SECRET}\n")
    assert leaks(Record({SECRET}, log_files=[file])) == [f"Bearer {SECRET}"]
