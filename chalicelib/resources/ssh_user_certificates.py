"""SSH user certificates (SPEC 2.4). Signed at creation and never again: a change alters only what describes them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from chalicelib import crypto, ids
from chalicelib.http.auth import Caller
from chalicelib.http.errors import Conflict, UnknownReference
from chalicelib.http.owned import OwnedResource
from chalicelib.http.resource import New
from chalicelib.model import kinds
from chalicelib.model.ssh import policies, revocations
from chalicelib.model.ssh.authorities import IssuedUserCertificate
from chalicelib.resources import ssh_signing
from chalicelib.schema.fields import Described, Time, Timestamp, Traced
from chalicelib.schema.rules import if_null
from chalicelib.schema.ssh_fields import (
    CERTIFIED_KEY,
    AuthorityId,
    CriticalOptions,
    Extensions,
    Principals,
    ValidAfter,
    after_the_start,
)

LIFETIME = timedelta(hours=24)


class UserCreate(Described):
    model_config = {"validate_default": True}  # the end must be behind the start also where it is left out

    ssh_certificate_authority_id: AuthorityId
    """The SSH certificate authority that signs it."""

    public_key: Annotated[crypto.keys.AuthorizedKey, CERTIFIED_KEY]
    """Public key in OpenSSH Authorized Keys format that the certificate signs."""

    principals: Principals = []
    """Usernames the holder may sign in as on a machine that trusts the signing authority. Empty: any user."""

    critical_options: CriticalOptions | None = None
    """Restrictions of the holder; only `force-command` and `source-address` are defined."""

    extensions: Annotated[Extensions, if_null({})] = {}
    """Metadata interpreted by the SSH server (terminal, port forwarding, x11 forwarding and the like).

    Default when unspecified, and for an empty object: `permit-pty` and `permit-user-rc`, each with an empty-string
    value, as far as the authority's policy allows them, or those that it names. Whoever names any extension gets
    exactly those. The ones that OpenSSH knows take no other value: `permit-pty`, `permit-user-rc`,
    `permit-port-forwarding`, `permit-agent-forwarding`, `permit-X11-forwarding`, `no-touch-required`. Critical options
    are none.
    """

    valid_after: ValidAfter = None
    """Start of validity, RFC 3339, not before 1970; default: the current time, less the `backdate` of
    the authority's policy."""

    valid_until: Annotated[Time, after_the_start(LIFETIME)] = None
    """End of validity, RFC 3339, after its start; default: 24 hours after creation. OpenSSH calls it valid_before."""


class SSHUserCertificate(Described, Traced):
    """Lets its holder sign in to machines that trust the authority which signed it."""

    public_key: str
    """Public key in OpenSSH Authorized Keys format that the certificate signs."""

    key_type: crypto.keys.KeyType
    """Key type of public_key."""

    ssh_certificate_authority_id: str
    """The SSH certificate authority that signed it."""

    principals: list[str]
    """Usernames the holder may sign in as on a machine that trusts the signing authority. Empty: any user."""

    critical_options: dict[str, str]
    """Restrictions of the holder: `force-command`, `source-address`."""

    extensions: dict[str, str]
    """Metadata interpreted by the SSH server (terminal, port forwarding, x11 forwarding and the like)."""

    valid_after: Timestamp
    """Start of validity, RFC 3339."""

    valid_until: Timestamp
    """End of validity, RFC 3339. The OpenSSH certificate protocol calls it valid_before."""

    certificate: str
    """The signed certificate in OpenSSH Authorized Keys format."""


def make(caller: Caller, id: str, request: UserCreate) -> New:
    signer = ssh_signing.signer(caller, request)
    bounds = policies.read_bounds(signer.authority, "user")
    asked = request.critical_options.fields_set() if request.critical_options else {}
    options: dict[str, Any] = {
        "critical_options": policies.merge_critical_options(bounds, asked),
        "extensions": policies.choose_extensions(bounds, request.extensions),
    }
    created_at = ids.created_at(id)
    certificate = crypto.ssh_certificates.UserCertificate(
        **ssh_signing.common(id, created_at, request, bounds, LIFETIME), **options
    )
    ssh_signing.check(certificate, bounds, caller, created_at)
    return ssh_signing.signed(IssuedUserCertificate, certificate, signer, request, **options)


RESOURCE = OwnedResource(
    kind=kinds.SSH_USER_CERTIFICATES,
    stored=IssuedUserCertificate,
    create=UserCreate,
    response=SSHUserCertificate,
    make=make,
    errors={"POST": (UnknownReference, Conflict), "DELETE": (Conflict,)},
    remove=revocations.delete_certificate,
)
