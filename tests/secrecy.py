"""Looks for secrets in everything that was said: in logs, refusals and audit events."""

import base64
from collections.abc import Iterator

from chalicelib.storage import vault
from tests.transports import Record

START = 11  # characters; what is shorter stands in a text by coincidence


def leaks(record: Record) -> list[str]:
    """Return the texts of a record that hold one of its secrets."""
    by_start: dict[str, list[str]] = {}
    for secret in searched(record):
        by_start.setdefault(secret[:START], []).append(secret)
    return [text for text in (*logged(record), *record.errors, *record.events) if any(secrets_in(text, by_start))]


def secrets_in(text: str, by_start: dict[str, list[str]]) -> Iterator[str]:
    """Yield the secrets in a text, in one pass, however many secrets there are."""
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
    return line.startswith("  API key   ")


def searched(record: Record) -> Iterator[str]:
    """Yield the texts that nothing may contain: the secrets, and private keys in each form of their bytes."""
    yield from ("PRIVATE KEY-----\n", r"PRIVATE KEY-----\n")  # alone, it can be the name of a field that is echoed
    for sealed, context in record.sealed:
        plaintext = vault.unseal(sealed, context, bytes)
        yield plaintext.hex()
        yield plaintext.hex().upper()
        yield base64.b64encode(plaintext).decode().rstrip("=")
        yield base64.urlsafe_b64encode(plaintext).decode().rstrip("=")
        yield repr(plaintext)[2:-1]
    yield from (secret for secret in record.secrets if len(secret) >= START)
