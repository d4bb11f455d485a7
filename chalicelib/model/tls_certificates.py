"""TLS certificates, as an edge serves them: the chain, the names it covers, and the key that only the vault opens."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from chalicelib import clock
from chalicelib.storage import vault
from chalicelib.storage.items import Item


@dataclass(frozen=True)
class TlsCertificate:
    """A certificate that an account uploaded: its PEM chain, leaf first, and the DNS names and validity of the leaf."""

    account: str
    id: str
    chain: str
    names: tuple[str, ...]
    not_before: datetime
    not_after: datetime
    sealed: Mapping[str, bytes] = field(repr=False)

    @staticmethod
    def of(item: Item) -> "TlsCertificate":
        """Return the certificate that an item holds."""
        body = item.body
        return TlsCertificate(
            item.account,
            item.id,
            body["certificate_pem"],
            tuple(body["subject_alternative_names"]["dns_names"]),
            clock.parse(body["not_before"]),
            clock.parse(body["not_after"]),
            item.sealed,
        )

    def private_key(self) -> bytes:
        """Return the private key as PKCS#8 DER: do not keep it. Raises aws.Unavailable."""
        return vault.unseal(self.sealed["private_key"], vault.context(self.account, self.id), bytes)
