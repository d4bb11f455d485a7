"""Certificate authorities, from PEM: exactly one certificate, which may sign others. Expired ones pass."""

from dataclasses import dataclass

from cryptography.x509 import BasicConstraints

from chalicelib.crypto import pem, x509
from chalicelib.crypto.pem import Block
from chalicelib.crypto.x509 import Facts

_WHICH = "this one"  # in the sentences of x509


@dataclass(frozen=True)
class Authority:
    """The certificate of an authority: as PEM, and what it says."""

    pem: str
    facts: Facts


def read(text: str, max_bytes: int) -> Authority:
    """Return the authority whose certificate is in a PEM text, at most so large. Raises ValueError, which says why."""
    content = _only_certificate(pem.blocks(text)).decode()
    encoded = pem.encode("CERTIFICATE", content)
    if len(encoded) > max_bytes:
        raise ValueError(f"must be at most {max_bytes} bytes")
    certificate = x509.load(content, _WHICH)
    facts = x509.read(certificate, _WHICH)
    if not any(isinstance(found.value, BasicConstraints) and found.value.ca for found in certificate.extensions):
        raise ValueError(
            "must be the certificate of an authority: the basic constraints of this one do not say CA:TRUE; "
            "send the certificate that signed it"
        )
    if facts.key_usages and "keyCertSign" not in facts.key_usages:
        raise ValueError("must be a certificate that may sign others: the key usages of this one leave out keyCertSign")
    return Authority(encoded, facts)


def _only_certificate(blocks: list[Block]) -> Block:
    for block in blocks:
        if block.label.endswith("PRIVATE KEY"):
            raise ValueError("must hold a certificate alone, not a private key, which nobody else should ever see")
        if block.label not in x509.LABELS:
            raise ValueError(f"must hold a certificate alone, not a '{block.label}'")
    if not blocks:
        raise ValueError("must be PEM, a text with BEGIN and END lines, and hold exactly one certificate")
    if len(blocks) > 1:
        raise ValueError(f"must hold exactly one certificate, not {len(blocks)}: create an authority for each")
    return blocks[0]
