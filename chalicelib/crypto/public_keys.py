"""Public keys in several text forms. All forms of a key have the same fingerprint.

The forms are OpenSSH authorized_keys, PEM (SubjectPublicKeyInfo or PKCS#1) and RFC 4716 (written by ssh-keygen -e).
"""

import base64
import hashlib
import re

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from chalicelib.crypto import keys

_SECURITY_KEYS = ("sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com")
_TYPES = (
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-ed25519",
    *_SECURITY_KEYS,
)
_PEM = re.compile(
    r"-----BEGIN (RSA )?PUBLIC KEY-----\s[0-9A-Za-z+/=\s]+-----END (RSA )?PUBLIC KEY-----", flags=re.ASCII
)
_RFC4716 = re.compile(r"---- BEGIN SSH2 PUBLIC KEY ----\r?\n(.+)---- END SSH2 PUBLIC KEY ----", flags=re.DOTALL)
# In RFC 4716, a header continues on the next line if its line ends with a backslash.
_RFC4716_HEADER = re.compile(r"^[^\s:]+:(?:.*\\\r?\n)*.*$", flags=re.MULTILINE)
_DAMAGED = "must contain one undamaged public key"


def fingerprint(text: str) -> str:
    """Return the fingerprint of the only public key in a text. Raises ValueError."""
    return fingerprint_of(_blob(keys.check_text(text).strip(" \t\r\n")))


def check(text: str) -> None:
    """Raise ValueError unless a text is one public key that is not weak."""
    blob = _blob(keys.check_text(text).strip(" \t\r\n"))
    name = blob[4 : 4 + int.from_bytes(blob[:4])].decode()
    keys.check_strength(keys.load_openssh(name, base64.b64encode(blob).decode()))


def fingerprint_of(blob: bytes) -> str:
    """Return the fingerprint of a key in the wire form of RFC 4253, as ssh-keygen -l prints fingerprints."""
    return keys.fingerprint(hashlib.sha256(blob).digest())


def digest(fingerprint: str) -> bytes:
    """Return the 32 bytes of a fingerprint. Raises ValueError if it is malformed."""
    content = base64.b64decode(f"{fingerprint.removeprefix('SHA256:')}=", validate=True)
    if len(content) != 32 or not fingerprint.startswith("SHA256:"):
        raise ValueError("must be a fingerprint as ssh-keygen -l prints it: SHA256:…")
    return content


def _blob(text: str) -> bytes:
    """Return the wire form of a key (RFC 4253). It is the same for all text forms."""
    if not text.startswith("-"):
        return _parse_line(text)
    if _PEM.fullmatch(text):
        return _parse_pem(text)
    if match := _RFC4716.fullmatch(text):
        blob = _decode_base64(re.sub(r"\s", "", _RFC4716_HEADER.sub("", match[1]), flags=re.ASCII))
        return _canonicalize(blob[4 : 4 + int.from_bytes(blob[:4])].decode(errors="replace"), blob)
    raise ValueError("must be exactly one public key: PEM (BEGIN PUBLIC KEY) or OpenSSH authorized_keys form")


def _parse_line(line: str) -> bytes:
    if len(line.splitlines()) > 1:
        raise ValueError("must be one public key: a single line, or PEM")
    name, encoded, *_ = [*keys.split(line), ""]
    if name not in _TYPES and any(word in _TYPES for word in re.split("[ \t]+", line)):
        raise ValueError("must start with the type of the key, without options before it")
    return _canonicalize(name, _decode_base64(encoded))


def _parse_pem(text: str) -> bytes:
    try:
        key = load_pem_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError(_DAMAGED) from None
    return keys.wire(keys.require_accepted(key))


def _canonicalize(name: str, blob: bytes) -> bytes:
    """Return a key's wire form as OpenSSH writes it, without redundant zero bytes in integers. Raises ValueError."""
    if name.endswith("-cert-v01@openssh.com"):
        raise ValueError("must be a plain public key, not a certificate")
    if name not in _TYPES:
        raise ValueError(f"must be PEM or start with the type of the key: {', '.join(_TYPES)}")
    key = keys.load_openssh(name, base64.b64encode(blob).decode())
    # the wire form of a FIDO security key stays unchanged, because `keys.wire` would drop its application string
    return blob if name in _SECURITY_KEYS else keys.wire(key)


def _decode_base64(encoded: str) -> bytes:
    try:
        return keys.decode(encoded)
    except ValueError:
        raise ValueError(_DAMAGED) from None
