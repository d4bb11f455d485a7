"""Finds the grants of clients: the account and the ACL of an SSH credential or a user certificate."""

from chalicelib.model.base import kinds, records
from chalicelib.model.ssh import credentials, revoked
from chalicelib.model.ssh.authorities import IssuedUserCertificate
from chalicelib.storage.records.items import Item
from edge.store.records import Grant


def find_by_key(fingerprint: str) -> Grant | None:
    """Return the grant of the active credential with this public key, or None."""
    credential = credentials.find_by_fingerprint(fingerprint)
    return Grant(credential.account, credential.id, tuple(credential.acl)) if credential else None


def find_by_certificate(authority: str, key_id: str) -> Grant | None:
    """Return the grant of an active user certificate, or None. `authority` is the fingerprint of the signing CA."""
    certificate = revoked.find_certificate(authority, key_id)
    return _of_certificate(certificate) if certificate else None


def refresh(grant: Grant) -> Grant | None:
    """Return the current grant of a credential. Return None if it is deleted or inactive."""
    if kinds.identify(grant.credential) is kinds.SSH_USER_CERTIFICATES:
        certificate = revoked.read_certificate(grant.account, grant.credential)
        return _of_certificate(certificate) if certificate else None
    credential = credentials.read(grant.account, grant.credential)
    return Grant(credential.account, credential.id, tuple(credential.acl)) if credential else None


def _of_certificate(certificate: Item) -> Grant:
    bind = records.decode(IssuedUserCertificate, certificate).bind
    return Grant(certificate.account, certificate.id, tuple(bind or ()))
