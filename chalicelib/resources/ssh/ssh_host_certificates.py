"""SSH host certificates. Clients with `@cert-authority` in known_hosts trust these hosts.

Host certificates are like user certificates, but are valid for a year and have no options, because OpenSSH defines none
for hosts.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from chalicelib import crypto, ids
from chalicelib.http.auth import Caller
from chalicelib.http.errors import Conflict, UnknownReference
from chalicelib.http.resource import New
from chalicelib.model.base import kinds
from chalicelib.model.ssh import policies, revocations
from chalicelib.model.ssh.authorities import IssuedCertificate
from chalicelib.resources.ssh import ssh_signing
from chalicelib.schema.fields import DescribedShape, Time, Timestamp, TracedShape
from chalicelib.schema.ssh_fields import CERTIFIED_KEY, AuthorityId, Principals, ValidAfter, after_start

LIFETIME = timedelta(days=365)


class HostCreate(DescribedShape):
    # without `valid_until`, also check that the default end is after `valid_after`
    model_config = {"validate_default": True}

    ssh_certificate_authority_id: AuthorityId
    """The SSH certificate authority that signs the certificate."""

    public_key: Annotated[crypto.keys.AuthorizedKey, CERTIFIED_KEY]
    """Public key of the host that is certified, in OpenSSH authorized_keys format."""

    principals: Principals = []
    """Names and addresses by which clients reach the host. Empty: valid for any host."""

    valid_after: ValidAfter = None
    """Start of validity, RFC 3339, not before 1970. Default: the current time minus the `backdate` of the authority's
    policy."""

    valid_until: Annotated[Time, after_start(LIFETIME)] = None
    """End of validity, RFC 3339, after the start. Default: 365 days after creation. OpenSSH calls it valid_before."""


class SSHHostCertificate(DescribedShape, TracedShape):
    """A certificate that proves a host to SSH clients that trust its authority."""

    public_key: str
    """Public key of the host that is certified, in OpenSSH authorized_keys format."""

    key_type: crypto.keys.KeyType
    """Key type of public_key."""

    ssh_certificate_authority_id: str
    """The SSH certificate authority that signed the certificate."""

    principals: list[str]
    """Names and addresses by which clients reach the host. Empty: valid for any host."""

    valid_after: Timestamp
    """Start of validity, RFC 3339."""

    valid_until: Timestamp
    """End of validity, RFC 3339. OpenSSH calls it valid_before."""

    certificate: str
    """The signed certificate in OpenSSH authorized_keys format, for HostCertificate of sshd."""


def make(caller: Caller, id: str, request: HostCreate) -> New:
    signer = ssh_signing.find_signer(caller, kinds.SSH_HOST_CERTIFICATES, request)
    bounds = policies.read_bounds(signer.authority, "host")
    created_at = ids.created_at(id)
    certificate = crypto.ssh_certificates.HostCertificate(
        **ssh_signing.build_common_fields(id, created_at, request, bounds, LIFETIME)
    )
    ssh_signing.check(certificate, bounds, caller, created_at)
    return ssh_signing.sign(IssuedCertificate, certificate, signer, request)


RESOURCE = ssh_signing.Certificates(
    kind=kinds.SSH_HOST_CERTIFICATES,
    stored=IssuedCertificate,
    create=HostCreate,
    response=SSHHostCertificate,
    make=make,
    errors={"POST": (UnknownReference, Conflict), "DELETE": (Conflict,)},
    access=ssh_signing.check_access,
    remove=revocations.delete_certificate,
)
