"""The certificates of certificate authorities, in PEM. Expired certificates are accepted."""

from dataclasses import dataclass

from cryptography.x509 import BasicConstraints

from chalicelib.crypto import pem, x509
from chalicelib.crypto.pem import Block
from chalicelib.crypto.x509 import Facts

# the name of the certificate in the error messages of `x509`: a text has only one certificate, so it needs no number
_WHICH = "this one"


@dataclass(frozen=True)
class Authority:
    """The certificate of a certificate authority: its PEM text and its parsed fields."""

    pem: str
    facts: Facts


def read(text: str, max_bytes: int) -> Authority:
    """Parse an authority's certificate. Raises ValueError for any other text, and for more than `max_bytes`."""
    content = _require_one_certificate(pem.blocks(text)).decode()
    encoded = pem.encode("CERTIFICATE", content)
    if len(encoded) > max_bytes:
        raise ValueError(f"must be at most {max_bytes} bytes")
    certificate = x509.load(content, _WHICH)
    facts = x509.read(certificate, _WHICH)
    if not any(
        isinstance(extension.value, BasicConstraints) and extension.value.ca for extension in certificate.extensions
    ):
        raise ValueError(
            "must be the certificate of an authority: this one has no basic constraint CA:TRUE; "
            "send the certificate that signed it"
        )
    if facts.key_usages and "keyCertSign" not in facts.key_usages:
        raise ValueError("must be a certificate that may sign others: the key usages of this one lack keyCertSign")
    return Authority(encoded, facts)


def _require_one_certificate(blocks: list[Block]) -> Block:
    for block in blocks:
        if block.label.endswith("PRIVATE KEY"):
            raise ValueError("must be only a certificate; this is a private key, which you should never share")
        if block.label not in x509.LABELS:
            raise ValueError(f"must be only a certificate, not a '{block.label}'")
    if not blocks:
        raise ValueError("must be PEM (text with BEGIN and END lines) with exactly one certificate")
    if len(blocks) > 1:
        raise ValueError(f"must contain exactly one certificate, not {len(blocks)}: create an authority for each")
    return blocks[0]
