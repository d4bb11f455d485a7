"""Certificate chains in PEM, leaf first. Expired and untrusted chains are accepted."""

from dataclasses import dataclass
from itertools import pairwise

from cryptography.exceptions import InternalError, InvalidSignature, UnsupportedAlgorithm
from cryptography.x509 import Certificate

from chalicelib.crypto import pem, x509
from chalicelib.crypto.pem import Block
from chalicelib.crypto.x509 import Facts

_MUST_STAPLE = (
    "must not require OCSP stapling, which the live edge does not support: "
    "certificate 1 has the extension TLS Feature (1.3.6.1.5.5.7.1.24, must-staple)"
)


@dataclass(frozen=True)
class Chain:
    """A chain of certificates, leaf first. Each certificate is signed by the next one.

    `pem` contains all certificates, `leaf` the fields of the first certificate.
    """

    pem: str
    leaf: Facts


def read(text: str, max_bytes: int) -> Chain:
    """Parse a chain of at most `max_bytes`. Raises ValueError, which names the problem."""
    contents = [block.decode() for block in _certificates(pem.blocks(text))]
    encoded = "".join(pem.encode("CERTIFICATE", content) for content in contents)
    if len(encoded) > max_bytes:
        raise ValueError(f"must be at most {max_bytes} bytes of certificates: send only the chain of the leaf")
    chain = [x509.load(content, f"certificate {number}") for number, content in enumerate(contents, start=1)]
    for number, (certificate, issuer) in enumerate(pairwise(chain), start=1):
        _check_signature(certificate, issuer, number)
    leaf = x509.read(chain[0], "certificate 1")
    if x509.requires_ocsp(chain[0]):
        raise ValueError(_MUST_STAPLE)
    return Chain(encoded, leaf)


def _certificates(blocks: list[Block]) -> list[Block]:
    for block in blocks:
        if block.label.endswith("PRIVATE KEY"):
            raise ValueError(
                "must be only certificates, not a private key: check that the two files are not swapped or merged"
            )
        if block.label not in x509.LABELS:
            raise ValueError(f"must be only certificates, not a '{block.label}'")
    if not blocks:
        raise ValueError("must be PEM (text with BEGIN and END lines) with a certificate")
    return blocks


def _check_signature(certificate: Certificate, issuer: Certificate, number: int) -> None:
    try:
        certificate.verify_directly_issued_by(issuer)
    except InvalidSignature:
        reason = "another key signed it"
    except (ValueError, TypeError, UnsupportedAlgorithm, InternalError) as error:
        reason = str(error)
    else:
        return
    raise ValueError(
        "must be a chain, leaf first, each certificate signed by the next: "
        f"certificate {number} is not signed by certificate {number + 1} ({reason[:200].rstrip('.')})"
    )
