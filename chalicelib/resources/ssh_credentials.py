"""SSH credentials (SPEC 2.3). The claim to a key repeats its rules, so that the SSH gateway asks once for both."""

from dataclasses import dataclass
from typing import Annotated, Any

from chalicelib import acl, crypto
from chalicelib.api import accounts, fields, references
from chalicelib.api.caller import Caller
from chalicelib.api.endpoints import Call
from chalicelib.api.errors import Conflict, Forbidden, UnknownReference
from chalicelib.api.fields import Described, OwnerId, Shown
from chalicelib.api.resource import EditableResource, New
from chalicelib.api.rules import Check, entries, if_null, max_bytes
from chalicelib.storage import claims, table
from chalicelib.storage.claims import Claim

_CLAIMED = "public_key"
_MAX_ACL_BYTES = 32 * 1024  # so that a page of a hundred stays far below what Lambda can answer


def _public_key(text: str) -> str:
    crypto.public_keys.fingerprint(text)
    return text


def _bounded(rules: list[str]) -> list[str]:
    if sum(len(rule.encode()) for rule in rules) > _MAX_ACL_BYTES:
        raise ValueError(f"must be at most {_MAX_ACL_BYTES} bytes of UTF-8 together")
    return rules


Rule = Annotated[str, Check(acl.check, {"pattern": "^(?:\\*|bind:.+)$", "format": "acl-rule"})]
Acl = Annotated[list[Rule], entries(0, 1000), Check(_bounded), if_null([])]


class Change(Described):
    acl: Acl = []
    """What the credential may bind; without rules, and with the rule `*`, everything.

    A rule is `bind:<domain>`, `bind:*.<suffix>` for every domain with that suffix, `bind:<host>:<port>`, or
    `bind:<key>=<value>` for a label, where key and value may be `*`. At most 32 KiB together.
    """


class Create(Change):
    public_key: Annotated[str, max_bytes(16 * 1024), Check(_public_key, {"format": "ssh-public-key"})]
    """Public key of the SSH key pair used to authenticate: PEM, or OpenSSH authorized_keys form. Kept verbatim.

    rsa of 2048 bits or more, ecdsa, ed25519, and their security-key forms. A key is unique in the whole service.
    """

    owner_id: OwnerId = ""
    """User or bot that owns the credential. Defaults to the authenticated user or bot. Only admins may set another."""


class SSHCredential(Create, Shown):
    """Starts new tunnels through the SSH gateway."""


def make(caller: Caller, id: str, asked: Create) -> New:
    owner = caller.owner(asked.owner_id)
    facts = {"account": caller.account, "id": id, "owner_id": owner.id, "acl": asked.acl}
    return New(
        body={
            "description": asked.description,
            "metadata": asked.metadata,
            "public_key": asked.public_key,
            "acl": asked.acl,
            "owner_id": owner.id,
        },
        claims=(Claim(_CLAIMED, crypto.public_keys.fingerprint(asked.public_key), facts),),
    )


@dataclass(frozen=True)
class Credential:
    """What a gateway needs to know of the credential behind a key; `acl` is for acl.permits."""

    account: str
    id: str
    owner_id: str
    acl: list[str]


def find_by_fingerprint(fingerprint: str) -> Credential | None:
    """The credential, of any account, with the key of a fingerprint (public_keys.fingerprint_of), or None.

    None also where it belongs to a bot that is inactive or was deleted. One read, two for a bot's. Raises
    aws.Unavailable.
    """
    facts = claims.read(_CLAIMED, fingerprint)
    return Credential(**facts) if facts and accounts.is_active(facts["account"], facts["owner_id"]) else None


class _SshCredentials(EditableResource):
    def patch(self, call: Call) -> dict[str, Any]:
        """As any other, but new rules go into the credential and into its claim at once."""
        given = fields.given(call.body)
        if "acl" not in given:
            return super().patch(call)
        scope, facts = call.caller.scope(self.path), {"acl": given["acl"]}
        return self.shown(self.found(table.rewrite(scope, self.id_in(call), given, facts=facts)), call)


SSH_CREDENTIALS = _SshCredentials(
    prefix="sshcr",
    path="/ssh_credentials",
    items="ssh_credentials",
    create=Create,
    change=Change,
    shows=SSHCredential,
    make=make,
    points=references.owner,
    refuses={"POST": (Forbidden, UnknownReference, Conflict)},
)
