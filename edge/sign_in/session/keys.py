"""Generates, encrypts and decrypts the private keys of the sign-in service."""

import base64
import json
import os
from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_der_private_key

from chalicelib.model.sign_in import signing_keys
from chalicelib.model.sign_in.signing_keys import KeyPair
from chalicelib.storage import vault

_STATE_KEY = 32  # bytes of the AES key


@dataclass(frozen=True)
class PrivateKeys:
    """The decrypted keys of a stored record.

    The EC key signs session tokens. The AES key encrypts the state parameters of sign-ins.
    """

    private: ec.EllipticCurvePrivateKey
    state_key: bytes


def create(signs_from: int) -> bool:
    """Generate and store keys. They are used from the Unix second `signs_from` on.

    Return False if another process has stored keys for this second. Raises aws.Unavailable.
    """
    private, kid = ec.generate_private_key(ec.SECP256R1()), f"{signs_from:x}"
    der = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    secret = {"private": _encode(der), "state": _encode(os.urandom(_STATE_KEY))}
    sealed = vault.seal(json.dumps(secret).encode(), signing_keys.CONTEXT)
    return signing_keys.create(kid, signs_from, _build_jwk(kid, private), sealed)


def unseal(pair: KeyPair) -> PrivateKeys:
    """Decrypt the private keys of a stored record. Raises vault.Unreadable, aws.Unavailable."""
    return vault.unseal_readable(pair.sealed, signing_keys.CONTEXT, _parse)


def _parse(plain: bytes) -> PrivateKeys:
    content = json.loads(plain)
    private = load_der_private_key(base64.b64decode(content["private"]), None)
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise TypeError("the stored signing key must be an elliptic curve (EC) key")
    return PrivateKeys(private, base64.b64decode(content["state"]))


def _build_jwk(kid: str, private: ec.EllipticCurvePrivateKey) -> dict[str, str]:
    jwk: dict[str, Any] = jwt.algorithms.ECAlgorithm.to_jwk(private.public_key(), as_dict=True)
    return {**{name: str(value) for name, value in jwk.items()}, "kid": kid, "alg": "ES256", "use": "sig"}


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()
