"""Values in the `details` of audit events: printable texts, digests and fingerprints.

Details are strings and lists of strings by dotted path. An encrypted value becomes "(secret)", and a long text becomes
a digest.
"""

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

Details = Mapping[str, Any]

_MAX_CLEANED_BYTES = 255


def clean(text: str) -> str:
    """Return the printable characters of a text, at most 255 bytes."""
    printable = "".join(sign for sign in text if sign.isprintable())
    return printable.encode(errors="replace")[:_MAX_CLEANED_BYTES].decode(errors="ignore")


def digest(text: str) -> str:
    """Return the SHA-256 digest of a text, for example sha256:9f86…"""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def ssh_fingerprint(line: str) -> str:
    """Return the fingerprint of an authorized_keys line, as ssh-keygen -l prints it.

    Returns "" for a text of another form. Does not import cryptography, because that import takes long.
    """
    words = line.split()
    if len(words) < 2 or line.startswith("-"):
        return ""
    digest = hashlib.sha256(base64.b64decode(words[1])).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def pem_fingerprint(pem: str) -> str:
    """Return the SHA-256 of the first certificate of a PEM chain in hexadecimal."""
    body = pem.partition("-----BEGIN CERTIFICATE-----")[2].partition("-----END")[0]
    return hashlib.sha256(base64.b64decode(body)).hexdigest()


def are_shown(value: Any) -> bool:
    """Return whether a value has the form of an event's `details`: strings, lists of strings, and maps of these.

    Only events from the edge have to be checked, because the edge can write anything.
    """
    if not isinstance(value, dict):
        return False
    inner = [each for entry in value.values() for each in (entry.values() if isinstance(entry, dict) else [entry])]
    return all(isinstance(entry, str) or is_texts(entry) for entry in inner)


def is_texts(value: Any) -> bool:
    """Return whether a value is a list of strings."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
