"""SSH credentials: public keys that may start tunnels (SPEC 2.3).

No two credentials can have the same public key. So the table has a separate record for each public key (a unique key).
This record also contains the credential's ACL. So at a login, the SSH gateway reads only this record.
"""

from contextlib import suppress
from typing import Annotated

from chalicelib import crypto
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call, CreatedItem
from chalicelib.http.errors import Conflict, Forbidden, UnknownReference
from chalicelib.http.resource import New
from chalicelib.model.accounts import switching
from chalicelib.model.base import kinds
from chalicelib.model.ssh import acl
from chalicelib.model.ssh.credentials import SshCredential
from chalicelib.resources.owned import OwnedResource, require_owner
from chalicelib.schema.fields import DescribedShape, OwnerId, TracedShape
from chalicelib.schema.rules import After, entries, if_null, max_bytes
from chalicelib.storage.client.aws import AwsError

_MAX_ACL_BYTES = 32 * 1024  # with this limit, a page of 100 credentials fits into a response of Lambda


def _check_public_key(text: str) -> str:
    crypto.public_keys.check(text)
    return text


def _check_size(rules: list[str]) -> list[str]:
    if sum(len(rule.encode()) for rule in rules) > _MAX_ACL_BYTES:
        raise ValueError(f"must have rules of at most {_MAX_ACL_BYTES} bytes in total, in UTF-8")
    return rules


Rule = Annotated[str, After(acl.check, {"pattern": "^(?:\\*|bind:.+)$", "format": "acl-rule"})]
Acl = Annotated[list[Rule], entries(0, 1000), After(_check_size), if_null([])]


class CredentialChange(DescribedShape):
    acl: Acl = []
    f"""Rules for the names and ports that the credential may bind. Without rules, or with the rule `*`, it may bind
    everything.

    A rule is `bind:<domain>`, `bind:*.<suffix>` for every domain with that suffix, `bind:<host>:<port>`, or
    `bind:<key>=<value>` for a label. Its key and value may be `*`. At most {_MAX_ACL_BYTES // 1024} KiB together.
    """


class CredentialCreate(CredentialChange):
    public_key: Annotated[str, max_bytes(16 * 1024), After(_check_public_key, {"format": "ssh-public-key"})]
    """Public key that authenticates the client: PEM or OpenSSH authorized_keys format. It is stored verbatim.

    rsa of 2048 to 16384 bits, ecdsa, ed25519, and their security-key forms. A key is unique in the whole service.
    """

    owner_id: OwnerId = ""
    """User or bot that owns the credential. Default: the authenticated user or bot. Only admins may set another."""


class SSHCredential(CredentialCreate, TracedShape):
    """A public key that may start tunnels through the SSH gateway."""


def make(caller: Caller, _id: str, request: CredentialCreate) -> New:
    owner = caller.owner(request.owner_id)
    return New(SshCredential.of({**request.values(), "owner_id": owner.id}))


class SshCredentials(OwnedResource):
    """SSH credentials. The record of a credential's public key contains whether the owner is active.

    This value is added right after the credential is created. If that fails, the SSH gateway also reads the owner at
    each login.
    """

    def post(self, call: Call) -> CreatedItem:
        creation = super().post(call)
        with suppress(AwsError):
            switching.update_new_credential(creation.item)
        return creation


RESOURCE = SshCredentials(
    kind=kinds.SSH_CREDENTIALS,
    stored=SshCredential,
    create=CredentialCreate,
    change=CredentialChange,
    response=SSHCredential,
    make=make,
    errors={"POST": (Forbidden, UnknownReference, Conflict)},
    access=require_owner,
)
