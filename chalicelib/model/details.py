"""The `details` of audit events: what a stored value tells of itself, and of a change what it was before and after.

Strings and lists of strings, each by its dotted path. What is sealed is told to be there, and never what it is; what is
long is told by its digest.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

Details = Mapping[str, Any]

_MAX_BYTES = 4096  # of a value, so that an event stays small beside what it tells of
_SEALED = "(secret)"
_MAX_CLEANED = 255  # bytes


def of(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details of something that was made or removed."""
    return {path: _shown(value) for path, value in _flat(told).items()}


def between(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details of a change: `before` and `after`, each with those values that differ; {} where none does."""
    old, new = _flat(before), _flat(after)
    differing = [path for path in sorted(old.keys() | new.keys()) if old.get(path) != new.get(path)]
    if not differing:
        return {}
    sides = (("before", old), ("after", new))
    return {name: {path: _shown(side[path]) for path in differing if path in side} for name, side in sides}


def differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names that two records have not in common, or not with the same value."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def cleaned(text: str) -> str:
    """Return the printable characters of a text that a client or an operator chose, cut after 255 bytes."""
    printable = "".join(sign for sign in text if sign.isprintable())
    return printable.encode(errors="replace")[:_MAX_CLEANED].decode(errors="ignore")


def digest(text: str) -> str:
    """Return a text by its digest alone."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def ssh_fingerprint(line: str) -> str:
    """Return the fingerprint, as ssh-keygen -l prints it, of a public key in authorized_keys form; "" of another form.

    It is read without cryptography, for which a request that only deletes does not wait.
    """
    words = line.split()
    if len(words) < 2 or line.startswith("-"):
        return ""
    found = hashlib.sha256(base64.b64decode(words[1])).digest()
    return f"SHA256:{base64.b64encode(found).decode().rstrip('=')}"


def pem_fingerprint(pem: str) -> str:
    """Return the SHA-256 of the first certificate of a PEM chain, in hexadecimal."""
    body = pem.partition("-----BEGIN CERTIFICATE-----")[2].partition("-----END")[0]
    return hashlib.sha256(base64.b64decode(body)).hexdigest()


def are_shown(value: Any) -> bool:
    """Tell whether a value has the form of the details of an event: strings and lists of strings, also one level down.

    That is for a record that another than the API may have written.
    """
    if not isinstance(value, dict):
        return False
    inner = [each for entry in value.values() for each in (entry.values() if isinstance(entry, dict) else [entry])]
    return all(isinstance(entry, str) or is_texts(entry) for entry in inner)


def is_texts(value: Any) -> bool:
    """Tell whether a value is a list of strings."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _flat(told: Mapping[str, Any], at: str = "") -> dict[str, Any]:
    """Return the values of nested mappings by their dotted paths, without those that are not set."""
    found: dict[str, Any] = {}
    for name, value in told.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{at}{name}.")
        elif value not in (None, "", b""):
            found[f"{at}{name}"] = value
    return found


def _shown(value: Any) -> str | list[str]:
    if isinstance(value, bytes):
        return _SEALED
    shown = [_text(each) for each in value] if isinstance(value, Sequence) and not isinstance(value, str) else value
    if isinstance(shown, list):
        written = json.dumps(shown)
        return shown if len(written) <= _MAX_BYTES else digest(written)
    text = _text(shown)
    return text if len(text.encode()) <= _MAX_BYTES else digest(text)


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool | int) else str(value)
