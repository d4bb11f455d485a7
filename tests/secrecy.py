"""Looks for secrets in everything that was said: in logs, answers and audit events."""

import base64
from collections.abc import Iterable, Iterator
from typing import Any

from chalicelib.storage import vault
from chalicelib.storage.records import item_keys
from tests.transports import Record

START = 11  # characters; what is shorter stands in a text by coincidence
STRIDE = 4  # characters between the places of a text at which a piece of a secret is looked for
PIECE = START - STRIDE + 1  # characters


def leaks(record: Record) -> list[str]:
    """Return the texts of a record that hold one of its secrets."""
    return [text for _, text in find_secrets(record)]


def find_secrets(record: Record) -> list[tuple[str, str]]:
    """Return the beginning of a secret and a text that holds it, for each such text of a record."""
    by_piece: dict[str, list[tuple[int, str]]] = {}
    for secret in list_secret_forms(record):
        if len({*secret}) > 4:  # zeros, which some tests have sealed, stand in ids too
            for offset in range(STRIDE):
                by_piece.setdefault(secret[offset : offset + PIECE], []).append((offset, secret))
    texts = (*list_logged_lines(record), *record.answers, *record.events)
    matches = ((next(secrets_in(text, by_piece), ""), text) for text in texts)
    return [(secret[:START], text) for secret, text in matches if secret]


def secrets_in(text: str, by_piece: dict[str, list[tuple[int, str]]]) -> Iterator[str]:
    """Yield the secrets in a text, in one pass, however many secrets there are.

    Of STRIDE pieces that follow each other by a character, one begins at a place that is looked at.
    """
    for offset in range(0, len(text), STRIDE):
        for secret_offset, secret in by_piece.get(text[offset : offset + PIECE], ()):
            if text.startswith(secret, max(offset - secret_offset, 0)):
                yield secret


def list_logged_lines(record: Record) -> Iterator[str]:
    yield from record.logs
    for file in record.log_files:
        # `make run` prints the first key for the person at the terminal: that is what it is for.
        yield from (line for line in file.read_text(errors="replace").splitlines() if not is_welcome(line))


def is_welcome(line: str) -> bool:
    return line.startswith("  API key   ")


def list_secret_forms(record: Record) -> Iterator[str]:
    """Yield the texts that nothing may contain: the secrets, and private keys in each form of their bytes."""
    yield from ("PRIVATE KEY-----\n", r"PRIVATE KEY-----\n")  # alone, it can be the name of a field that is echoed
    for plaintext in {*record.opened, *(vault.unseal(*sealed, bytes) for sealed in record.sealed)}:
        yield plaintext.hex()
        yield plaintext.hex().upper()
        yield base64.b64encode(plaintext).decode().rstrip("=")
        yield base64.urlsafe_b64encode(plaintext).decode().rstrip("=")
        yield repr(plaintext)[2:-1]
    yield from (secret for secret in record.secrets if len(secret) >= START)


def sealed_in(record: dict[str, Any]) -> Iterator[tuple[bytes, dict[str, str]]]:
    """Yield what is sealed in a record of the table, as DynamoDB has it, each with its context."""
    scope, id = item_keys.find_item(record["scope"]["S"], record["id"]["S"])
    context = vault.context(scope.partition("#")[0], id)
    modules = dict(record.get("parts", {}).get("M", {}))
    for name in ("basic_auth", "webhook_verification"):
        module_context = vault.context(context["account"], f"{id}/{name}")
        yield from ((sealed, module_context) for sealed in _binary(modules.pop(name, {})))
    for part in (record.get("sealed", {}), {"M": modules}):
        yield from ((sealed, context) for sealed in _binary(part))


def _binary(value: dict[str, Any]) -> Iterator[bytes]:
    for kind, content in value.items():
        if kind == "B" and content:  # a client secret that was left out is empty
            yield content
        inner: Iterable[Any] = content.values() if kind == "M" else content if kind == "L" else ()
        for child in inner:
            yield from _binary(child)
