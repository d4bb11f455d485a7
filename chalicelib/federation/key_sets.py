"""The public keys of an issuer, from its JSON Web Key Set (JWKS). No function has I/O."""

from base64 import urlsafe_b64decode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_KEYS = 100
ALGORITHMS: Mapping[str, Sequence[tuple[str, str | None]]] = {  # for each algorithm: the `kty` and `crv` of its keys
    **{f"{family}{size}": [("RSA", None)] for family in ("RS", "PS") for size in (256, 384, 512)},
    "ES256": [("EC", "P-256")],
    "ES384": [("EC", "P-384")],
    "ES512": [("EC", "P-521")],
    "EdDSA": [("OKP", "Ed25519"), ("OKP", "Ed448")],
}

Jwk = Mapping[str, str]

# for each key type `kty` of a JSON Web Key: the members of a public key
_MEMBERS = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
_OPTIONAL = ("kid", "alg")
_MIN_RSA_BITS = 2048
_MAX_RSA_BITS = 16384  # OpenSSL does not verify signatures of larger RSA keys


@dataclass(frozen=True)
class KeySet:
    """The keys of an issuer that can verify signatures, without the JSON members of private keys."""

    keys: tuple[Jwk, ...] = ()

    @classmethod
    def parse(cls, document: Any) -> "KeySet":
        """Return the usable keys of a JSON document. Raises ValueError unless the document is a JWKS."""
        entries = document.get("keys") if isinstance(document, dict) else None
        if not isinstance(entries, list):
            raise ValueError("must be an object with the list `keys`")
        usable = [key for entry in entries[:MAX_KEYS] if (key := _read(entry))]
        counts = Counter(
            entry.get("kid") for entry in entries[:MAX_KEYS] if isinstance(entry, dict) and _has_kid(entry)
        )
        return cls(tuple(key for key in usable if counts[key.get("kid")] <= 1))

    def find(self, kid: str | None) -> Jwk | None:
        """Return the key with a `kid`. Without a `kid`, the set must contain exactly one key."""
        if kid is None:
            return self.keys[0] if len(self.keys) == 1 else None
        return next((key for key in self.keys if key.get("kid") == kid), None)


def _is_text(value: object) -> bool:
    """Return whether a value is a string that can be stored. A lone surrogate cannot be stored."""
    return isinstance(value, str) and not any("\ud800" <= sign <= "\udfff" for sign in value)


def _has_kid(entry: Mapping[str, Any]) -> bool:
    return isinstance(entry.get("kid"), str)


def _read(entry: Any) -> Jwk | None:
    """Return the public members of a key. Return None if the key cannot verify signatures."""
    if not isinstance(entry, dict) or not isinstance(entry.get("kty"), str) or entry.get("use", "sig") != "sig":
        return None
    operations = entry.get("key_ops", ["verify"])
    names = (*_MEMBERS.get(entry["kty"], ()), *(name for name in _OPTIONAL if name in entry))
    if entry["kty"] not in _MEMBERS or not all(map(_is_text, map(entry.get, names))):
        return None
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    if entry["kty"] == "RSA" and not _MIN_RSA_BITS <= _count_modulus_bits(entry["n"]) <= _MAX_RSA_BITS:
        return None
    return {"kty": entry["kty"], **{name: entry[name] for name in names}}


def _count_modulus_bits(text: str) -> int:
    """Return the length in bits of an RSA modulus in base64url. Return 0 if the text is malformed."""
    try:
        return int.from_bytes(urlsafe_b64decode(text + "=" * (-len(text) % 4))).bit_length()
    except ValueError:
        return 0
