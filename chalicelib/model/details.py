"""The `details` of audit events: what a stored value tells of itself, and of a change what it was before and after.

Strings and lists of strings, each by its dotted path. What is sealed is told to be there, and never what it is; what is
long is told by its digest.
"""

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

Details = Mapping[str, Any]

_MAX_CLEANED = 255  # bytes


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
