"""SSH user certificates (SPEC 2.4). They are signed at creation. Only description and metadata can be changed."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from chalicelib import crypto, ids
from chalicelib.http.auth import Caller
from chalicelib.http.errors import Conflict, InvalidRequest, UnknownReference
from chalicelib.http.resource import New
from chalicelib.model.base import kinds
from chalicelib.model.ssh import policies, revocations
from chalicelib.model.ssh.authorities import IssuedUserCertificate
from chalicelib.resources.ssh import ssh_signing
from chalicelib.schema import ssh_fields
from chalicelib.schema.fields import DescribedShape, Time, Timestamp, TracedShape
from chalicelib.schema.rules import if_null
from chalicelib.schema.ssh_fields import (
    CERTIFIED_KEY,
    AuthorityId,
    CriticalOptions,
    Extensions,
    Principals,
    ValidAfter,
    after_start,
)

LIFETIME = timedelta(hours=24)


class UserCreate(DescribedShape):
    # without `valid_until`, also check that the default end is after `valid_after`
    model_config = {"validate_default": True}

    ssh_certificate_authority_id: AuthorityId
    """The SSH certificate authority that signs the certificate."""

    public_key: Annotated[crypto.keys.AuthorizedKey, CERTIFIED_KEY]
    """Public key of the user that is certified, in OpenSSH authorized_keys format."""

    principals: Principals = []
    """Names of users that the holder may sign in as, on machines that trust the authority. Empty: any user."""

    critical_options: CriticalOptions | None = None
    """Restrictions of the holder. Only `force-command` and `source-address` are defined."""

    extensions: Annotated[Extensions, if_null({})] = {}
    """Permissions that the SSH server interprets: terminal, port forwarding, X11 forwarding and others.

    Default, also for an empty object: the default extensions of the authority's policy. If it has none: `permit-pty`
    and `permit-user-rc`, as far as the policy allows them. A request that names any extension gets exactly those.
    The extensions of OpenSSH must have an empty value: `permit-pty`, `permit-user-rc`, `permit-port-forwarding`,
    `permit-agent-forwarding`, `permit-X11-forwarding`, `no-touch-required`. Names of critical
    options are rejected.

    `bind@tunnel-edge` restricts what the holder may bind at the SSH gateway: ACL rules with commas between them, as
    `bind:demo.example.com,bind:example.com:20022,bind:region=eu`. `*` permits everything, as without the extension.
    """

    valid_after: ValidAfter = None
    """Start of validity, RFC 3339, not before 1970. Default: the current time minus the `backdate` of the authority's
    policy."""

    valid_until: Annotated[Time, after_start(LIFETIME)] = None
    """End of validity, RFC 3339, after the start. Default: 24 hours after creation. OpenSSH calls it valid_before."""


class SSHUserCertificate(DescribedShape, TracedShape):
    """A certificate that lets its holder sign in to machines that trust its authority."""

    public_key: str
    """Public key of the user that is certified, in OpenSSH authorized_keys format."""

    key_type: crypto.keys.KeyType
    """Key type of public_key."""

    ssh_certificate_authority_id: str
    """The SSH certificate authority that signed the certificate."""

    principals: list[str]
    """Names of users that the holder may sign in as, on machines that trust the authority. Empty: any user."""

    critical_options: dict[str, str]
    """Restrictions of the holder: `force-command`, `source-address`."""

    extensions: dict[str, str]
    """Permissions that the SSH server interprets: terminal, port forwarding, X11 forwarding and others."""

    valid_after: Timestamp
    """Start of validity, RFC 3339."""

    valid_until: Timestamp
    """End of validity, RFC 3339. OpenSSH calls it valid_before."""

    certificate: str
    """The signed certificate in OpenSSH authorized_keys format."""


def make(caller: Caller, id: str, request: UserCreate) -> New:
    return make_within(None, caller, id, request)


def make_within(lifetime: timedelta | None, caller: Caller, id: str, request: UserCreate) -> New:
    """Return a new certificate. If `lifetime` is set, the certificate must end within this time from now."""
    if errors := ssh_fields.check_bind(request.extensions):
        raise InvalidRequest.of(errors)
    signer = ssh_signing.find_signer(caller, kinds.SSH_USER_CERTIFICATES, request)
    bounds = policies.read_bounds(signer.authority, "user")
    fields_set = request.critical_options.fields_set() if request.critical_options else {}
    options: dict[str, Any] = {
        "critical_options": policies.merge_critical_options(bounds, fields_set),
        "extensions": policies.choose_extensions(bounds, request.extensions),
    }
    created_at = ids.created_at(id)
    default = min(lifetime, policies.default_lifetime(bounds, lifetime)) if lifetime else LIFETIME
    common = ssh_signing.build_common_fields(id, created_at, request, bounds, default)
    if lifetime and common["valid_until"] > created_at + lifetime:
        seconds = int(lifetime.total_seconds())
        raise InvalidRequest.of({"valid_until": f"must be at most {seconds} seconds from now"})
    certificate = crypto.ssh_certificates.UserCertificate(**common, **options)
    ssh_signing.check(certificate, bounds, caller, created_at)
    return ssh_signing.sign(IssuedUserCertificate, certificate, signer, request, **options)


RESOURCE = ssh_signing.Certificates(
    kind=kinds.SSH_USER_CERTIFICATES,
    stored=IssuedUserCertificate,
    create=UserCreate,
    response=SSHUserCertificate,
    make=make,
    errors={"POST": (UnknownReference, Conflict), "DELETE": (Conflict,)},
    access=ssh_signing.check_access,
    remove=revocations.delete_certificate,
)
