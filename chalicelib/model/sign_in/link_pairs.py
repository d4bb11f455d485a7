"""The TLS key pair with which sign-in services accept connections from Envoys on other hosts.

The edge's control process replaces the pair daily. The certificate and its authority are stored unencrypted beside the
encrypted private key.
"""

from dataclasses import asdict, dataclass, field

from chalicelib.model.base.kinds import EDGE
from chalicelib.storage import vault
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import decoding, items

ID = "sign-in-link"
SCOPE = items.scope(EDGE, "/authorities")
CONTEXT = vault.context(EDGE, ID)
_KEY = "private_key"


@dataclass(frozen=True, kw_only=True)
class LinkPair:
    """A certificate and its authority as PEM, and the Unix second at which the certificate was made."""

    chain: str
    authority: str
    made_at: int


@dataclass(frozen=True)
class SealedLinkPair:
    """A certificate, and its private key encrypted with KMS."""

    pair: LinkPair
    key: bytes = field(repr=False)

    def open_key(self) -> bytes:
        """Return the private key as PEM. Raises vault.Unreadable, aws.Unavailable."""
        return vault.unseal_readable(self.key, CONTEXT, bytes)


def read() -> SealedLinkPair | None:
    """Return the stored TLS key pair, or None. Raises MalformedRecord, aws.Unavailable."""
    record = dynamodb.get(SCOPE, ID)
    if record is None:
        return None
    return SealedLinkPair(decoding.decode(LinkPair, record.get("body", {})), record.get("sealed", {}).get(_KEY, b""))


def write(pair: LinkPair, key: bytes) -> None:
    """Store a TLS key pair in place of the former pair. Raises aws.Unavailable."""
    sealed = {_KEY: vault.seal(key, CONTEXT)}
    dynamodb.do(Write.put({"scope": SCOPE, "id": ID, "body": asdict(pair), "sealed": sealed, "revision": 1}))
