"""Tokens and key sets of an issuer in tests, made by hand so that they can be malformed."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

NOW = 1_800_000_000
ISSUER = "https://token.actions.githubusercontent.com"
AUDIENCE = "fcred_2Nhkxj9yz0yYxJ5VZcM3tqT8s4G"
HEADER = {"alg": "RS256", "kid": "rsa", "typ": "JWT"}
PAYLOAD: dict[str, Any] = {
    "iss": ISSUER,
    "sub": "repo:octo/demo:ref:refs/heads/main",
    "aud": AUDIENCE,
    "iat": NOW,
    "nbf": NOW - 300,
    "exp": NOW + 300,
    "jti": "e6a6b6f2",
    "repository_id": "74",
    "ref": "refs/heads/main",
}


@dataclass(frozen=True)
class Trust:
    """A federated credential, as far as tokens are concerned."""

    issuer: str = ISSUER
    audiences: list[str] = field(default_factory=lambda: [AUDIENCE])
    claims: Mapping[str, str | list[str]] = field(default_factory=lambda: {"repository_id": "74"})
    owner_claim: str = ""
    single_use: bool = False


@cache
def rsa_key(kid: str, bits: int) -> rsa.RSAPrivateKey:
    """Return the RSA key with a name. It is the same each time."""
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key(kid: str) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@cache
def ed_key(kid: str) -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def rsa_jwk(kid: str = "rsa", bits: int = 2048, **members: Any) -> dict[str, Any]:
    numbers = rsa_key(kid, bits).public_key().public_numbers()
    return {"kty": "RSA", "use": "sig", "kid": kid, "n": number(numbers.n), "e": number(numbers.e), **members}


def ec_jwk(kid: str = "ec", **members: Any) -> dict[str, Any]:
    numbers = ec_key(kid).public_key().public_numbers()
    point = {"x": number(numbers.x, 32), "y": number(numbers.y, 32)}
    return {"kty": "EC", "crv": "P-256", "use": "sig", "kid": kid, **point, **members}


def ed_jwk(kid: str = "ed", **members: Any) -> dict[str, Any]:
    point = ed_key(kid).public_key().public_bytes_raw()
    return {"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": kid, "x": encode(point), **members}


def token(
    header: Mapping[str, Any] | str = HEADER, payload: Mapping[str, Any] | str = PAYLOAD, sign: Any = None
) -> str:
    """Return a token. A text is signed as it is, so it can be any JSON."""
    texts = [part if isinstance(part, str) else json.dumps(part) for part in (header, payload)]
    return sign_input(".".join(encode(text.encode()) for text in texts), sign or sign_rs256)


def sign_input(signing_input: str, sign: Callable[[bytes], bytes]) -> str:
    return f"{signing_input}.{encode(sign(signing_input.encode()))}"


def sign_rs256(data: bytes) -> bytes:
    return rsa_key("rsa", 2048).sign(data, padding.PKCS1v15(), hashes.SHA256())


def sign_ps256(data: bytes) -> bytes:
    return rsa_key("rsa", 2048).sign(data, padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256())


def sign_es256(data: bytes) -> bytes:
    r, s = decode_dss_signature(ec_key("ec").sign(data, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32) + s.to_bytes(32)


def sign_eddsa(data: bytes) -> bytes:
    return ed_key("ed").sign(data)


def encode(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def number(value: int, length: int = 0) -> str:
    return encode(value.to_bytes(length or (value.bit_length() + 7) // 8))
