"""SSH certificate authorities and the certificates that they issued. Private keys are decrypted only to sign."""

import base64
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from chalicelib import clock, crypto
from chalicelib.model.audit import details
from chalicelib.model.base import kinds, packing, records
from chalicelib.model.base.records import Described, Traced
from chalicelib.model.changes import Change
from chalicelib.model.ssh import acl
from chalicelib.storage import vault
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import decoding, items, revocation_lists, table, writes
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.revocation_lists import Head
from chalicelib.storage.records.unique_keys import UniqueKey

_KIND = "ssh_authority"


@dataclass(frozen=True, kw_only=True)
class SshAuthority(Described):
    """The stored form of an authority. `public_key` is one authorized_keys line without a comment."""

    public_key: str
    key_type: str = ""

    AUDITED = ("key_type",)

    def audited_fields(self) -> dict[str, Any]:
        return {**super().audited_fields(), "fingerprint": details.ssh_fingerprint(self.public_key)}

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return the unique key that prevents two authorities with the same public key."""
        return (UniqueKey(_KIND, crypto.public_keys.fingerprint(self.public_key), {"account": account, "id": id}),)

    def parameters(self) -> dict[str, Any]:
        """Return the `key_size` of an RSA key, in bits, or the `elliptic_curve` of an ECDSA key.

        This method parses the key itself, because the cryptography package takes long to import. Raises
        MalformedRecord.
        """
        try:
            name, encoded, *_ = self.public_key.split()
            if name.startswith("ecdsa-sha2-"):
                return {"elliptic_curve": name.removeprefix("ecdsa-sha2-")}
            if name == "ssh-rsa":
                return {"key_size": int.from_bytes(_parse_strings(base64.b64decode(encoded))[-1]).bit_length()}
        except (ValueError, LookupError):
            raise MalformedRecord(
                "SshAuthority", "public_key", "must be a public key in OpenSSH authorized_keys form"
            ) from None
        return {}


@dataclass(frozen=True, kw_only=True)
class IssuedCertificate(Traced):
    """The stored form of an SSH user or host certificate."""

    public_key: str
    key_type: str = ""
    ssh_certificate_authority_id: str
    principals: list[str] = field(default_factory=list)
    valid_after: str = ""
    valid_until: str
    certificate: str

    PACKED = MappingProxyType({"public_key": packing.SSH_LINE, "certificate": packing.SSH_LINE})

    @property
    def end(self) -> int:
        """Return the Unix second at which the certificate ends. Raises MalformedRecord."""
        return decoding.second("IssuedCertificate", "valid_until", self.valid_until)

    def decode_signed(self) -> "crypto.ssh_certificates.Signed":
        """Return the decoded fields of the signed certificate. Raises MalformedRecord."""
        try:
            return crypto.ssh_certificates.read(self.certificate)
        except (ValueError, LookupError):
            raise MalformedRecord(
                "IssuedCertificate", "certificate", "must be an SSH certificate in OpenSSH form"
            ) from None


@dataclass(frozen=True, kw_only=True)
class IssuedUserCertificate(IssuedCertificate):
    """The stored form of a user certificate."""

    critical_options: dict[str, str] = field(default_factory=dict)
    extensions: dict[str, str] = field(default_factory=dict)

    @property
    def bind(self) -> list[str] | None:
        """Return the ACL rules of the certificate, or None if it has none. Raises MalformedRecord."""
        text = self.extensions.get(acl.EXTENSION)
        try:
            return None if text is None else acl.split(text)
        except ValueError:
            raise MalformedRecord(
                "IssuedUserCertificate", "extensions", f"must contain valid ACL rules in {acl.EXTENSION}"
            ) from None


def find_certificate(fingerprint: str, key_id: str) -> Item | None:
    """Return a user certificate of any account. Return None if it does not exist or has ended.

    `fingerprint` is the fingerprint of its authority (SHA256:…). Two reads. Raises MalformedRecord, aws.Unavailable.
    """
    authority = table.look_up(_KIND, fingerprint)
    certificate = read_certificate(authority["account"], key_id) if authority else None
    if authority is None or certificate is None:
        return None
    signer = records.decode(IssuedUserCertificate, certificate).ssh_certificate_authority_id
    return certificate if signer == authority["id"] else None


def read_certificate(account: str, id: str) -> Item | None:
    """Return a user certificate that has not ended, or None. Raises MalformedRecord, aws.Unavailable."""
    if not kinds.SSH_USER_CERTIFICATES.has(id):
        return None
    certificate = table.read(items.scope(account, kinds.SSH_USER_CERTIFICATES.path), id)
    is_valid = certificate and records.decode(IssuedUserCertificate, certificate).end > clock.seconds()
    return certificate if is_valid else None


def read(account: str, id: str) -> Item | None:
    """Return an authority of an account, or None. Raises aws.Unavailable."""
    return table.read(items.scope(account, kinds.SSH_CERTIFICATE_AUTHORITIES.path), id)


def begin_list(account: str, id: str, public_key: str) -> Write:
    """Return the write that creates an empty revocation list for an authority."""
    return revocation_lists.begin(Head(id, account, public_key))


def remove(change: Change, scope: str, id: str) -> bool:
    """Remove an authority. Return False if it does not exist.

    Its revocation list stays until the last entry ends. Raises the errors of `Change.commit`.
    """

    def attempt() -> bool:
        authority, head = table.find(scope, id), revocation_lists.read(id)
        if authority is None:
            return False
        removal = change.remove(authority)
        if head and head.account == authority.account:
            removal = removal.add(revocation_lists.end(head, revocation_lists.read_chunks(id)))
        removal.commit()
        return True

    return writes.retry(attempt)


def read_signer(account: str, id: str, digest: bytes) -> tuple[Item | None, bool]:
    """Return an authority, and whether it has revoked a key. The authority is None if it does not exist.

    `digest` is the SHA-256 digest of the key. One call. Raises aws.Unavailable.
    """
    entry = crypto.packed_revocations.RevokedKey(digest)
    item_key = (f"{account}#{kinds.SSH_CERTIFICATE_AUTHORITIES.path}", id)
    record, chunk = dynamodb.get_each(item_key, revocation_lists.key_of(id, entry))
    packed = revocation_lists.decode_chunk(chunk).packed if chunk else b""
    is_revoked = bool(packed) and crypto.packed_revocations.holds(packed, entry)
    return items.decode_with_body(record), is_revoked


def open_signing_key(authority: Item) -> "crypto.keys.PrivateKey":
    """Return the private key of an authority. Use it for one signature, and do not store it.

    Raises MalformedRecord, aws.Unavailable.
    """
    context = vault.context(authority.account, authority.id)
    return vault.unseal(authority.sealed["private_key"], context, crypto.keys.from_der)


def audited_certificate(certificate: IssuedCertificate, serial: int, key_fingerprint: str) -> dict[str, object]:
    """Return the `details` of the audit events of a certificate."""
    bind = certificate.bind if isinstance(certificate, IssuedUserCertificate) else None
    return {
        "ssh_certificate_authority_id": certificate.ssh_certificate_authority_id,
        "principals": certificate.principals,
        "valid_after": certificate.valid_after,
        "valid_until": certificate.valid_until,
        "serial": str(serial),
        "key_fingerprint": key_fingerprint,
        **({"bind": bind} if bind else {}),
    }


def _parse_strings(blob: bytes) -> list[bytes]:
    """Return the strings in a public key's wire format (RFC 4253). The length precedes each string, as four bytes."""
    strings = []
    while blob:
        end = 4 + int.from_bytes(blob[:4])
        strings.append(blob[4:end])
        blob = blob[end:]
    return strings
