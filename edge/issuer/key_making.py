"""Creates the private keys of certificates.

A short-lived child process creates and encrypts each key, so that no key is in the issuer's memory. The child runs
`python -m edge.issuer.key_making`. The child reads a KeyWish as JSON from its standard input, and writes a SealedKey as
JSON to its standard output.
"""

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from chalicelib import crypto
from chalicelib.model.tls.certificate_policies import PolicyKeyType
from chalicelib.storage import vault
from chalicelib.storage.client import aws
from edge.issuer.attempts import AttemptFailed
from edge.issuer.rules import outcomes
from edge.process import memory

_TIMEOUT = 60  # seconds for the creation of one key


@dataclass(frozen=True)
class KeyWish:
    """The certificate names and the type of a key to create.

    `account` and `id`, which is the id of the certificate, are the encryption context of the key.
    """

    account: str
    id: str
    names: tuple[str, ...]
    key_type: PolicyKeyType = "ecdsa"


@dataclass(frozen=True)
class SealedKey:
    """An encrypted private key, and the certificate request (DER) that is signed with it."""

    request: bytes
    key: bytes


MakeKey = Callable[[KeyWish], SealedKey]  # creates and encrypts a key. Raises AttemptFailed, aws.Unavailable


def make(wish: KeyWish) -> SealedKey:
    """Create and encrypt a key in this process. Raises aws.Unavailable."""
    private = (
        rsa.generate_private_key(65537, 2048) if wish.key_type == "rsa" else ec.generate_private_key(ec.SECP256R1())
    )
    names = x509.SubjectAlternativeName([x509.DNSName(name) for name in wish.names])
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    request = builder.add_extension(names, critical=False).sign(private, hashes.SHA256())
    sealed = vault.seal(crypto.keys.to_der(private), vault.context(wish.account, wish.id))
    return SealedKey(request.public_bytes(serialization.Encoding.DER), sealed)


def make_in_child(wish: KeyWish) -> SealedKey:
    """Create and encrypt a key in a child process. Raises AttemptFailed."""
    command = [sys.executable, "-m", "edge.issuer.key_making"]
    try:
        process = subprocess.run(  # noqa: S603 (the arguments are constant)
            command, input=json.dumps(asdict(wish)).encode(), stdout=subprocess.PIPE, timeout=_TIMEOUT, check=True
        )
        values = {name: base64.b64decode(text) for name, text in json.loads(process.stdout).items()}
        return SealedKey(**values)
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        raise AttemptFailed(
            outcomes.internal(), f"a private key could not be created: {type(error).__name__}"
        ) from None


def main() -> None:
    """Create one key for the KeyWish on standard input. Write the SealedKey to standard output."""
    memory.forbid_dumps()
    wish = json.load(sys.stdin)
    try:
        sealed_key = make(KeyWish(**{**wish, "names": tuple(wish["names"])}))
    except aws.AwsError as error:
        sys.exit(f"A private key could not be encrypted ({error.code}): check the KMS key.")
    json.dump({name: base64.b64encode(value).decode() for name, value in asdict(sealed_key).items()}, sys.stdout)


if __name__ == "__main__":
    main()
