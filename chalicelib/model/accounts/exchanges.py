"""Exchanges of tokens: verification, and the record that prevents a second use of a single-use token.

Only exchanges import this file, because its imports take long.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chalicelib import clock
from chalicelib.federation import issuer_keys
from chalicelib.federation.issuer_keys import IssuerNotAllowed
from chalicelib.model.accounts import federated_credentials
from chalicelib.model.accounts.accounts import Owner
from chalicelib.model.audit import details
from chalicelib.model.audit.details import Details
from chalicelib.model.base import kinds
from chalicelib.model.base.records import Stored
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from chalicelib.storage.records import decoding, unique_keys
from chalicelib.storage.records.decoding import MalformedRecord

if TYPE_CHECKING:
    from chalicelib.federation.tokens import Claims

_TOLERANCE = 60  # seconds by which the issuer's clock and the clock of this process may differ
_MAX_ENTRIES = 20  # the most entries of a claim's list that an audit event shows


class Refused(Exception):
    """An exchange is refused. `reason` is for the admin and contains no value of the token.

    `is_signed` is true if the signature of the token was valid. Other refusals must not be recorded, because anyone can
    cause them.
    """

    def __init__(self, reason: str, *, is_signed: bool = True) -> None:
        super().__init__(reason)
        self.reason, self.is_signed = reason, is_signed


@dataclass(frozen=True, kw_only=True)
class TrustedCredential(Stored):
    """The attributes of a federated credential's unique key, the record that an exchange reads.

    The values are copied from the credential, its owner, and the account's rules.
    """

    account: str
    issuer: str
    audiences: list[str]
    claims: Mapping[str, str | list[str]]
    owner_id: str
    owner_claim: str
    provision: bool
    scopes: list[str]
    max_lifetime: int
    single_use: bool
    enabled: bool
    active: bool = True
    admin: bool = False
    name: str = ""
    account_networks: list[str] | None = None
    account_limits: dict[str, int] | None = None
    max_idle_days: int | None = None
    account_lifetime: int | None = None
    require_scopes: bool = False
    federated: str = ""  # ids of federated credentials: the chain of the API key that created this credential

    @property
    def owner(self) -> Owner:
        """Return the owner that the credential names."""
        return Owner(self.owner_id, self.admin, self.active, self.name)

    @property
    def rules(self) -> dict[str, Any]:
        """Return the account's rules for a new API key, as attributes of the key's token record."""
        return {
            "account_networks": self.account_networks,
            "max_idle_days": self.max_idle_days,
            "account_limits": self.account_limits,
        }


@dataclass(frozen=True)
class VerifiedToken:
    """A token that a credential trusts."""

    credential_id: str
    credential: TrustedCredential
    claims: "Claims" = field(repr=False)

    @property
    def chain(self) -> str:
        """Return the ids of all federated credentials from which a key from this exchange descends (see `trees.py`).

        The ids are separated by spaces, the nearest credential first.
        """
        return f"{self.credential_id} {self.credential.federated}".strip()

    @property
    def details(self) -> Details:
        """Return the claims that audit events show: issuer, subject, token id, and all that the credential requires."""
        token_claims = {"issuer": self.claims.issuer, "subject": self.claims.subject, "token_id": self.claims.token_id}
        required_claims = {f"claims.{name}": self.claims.all.get(name) for name in self.credential.claims}
        return {
            name: _format_claim(value)
            for name, value in {**token_claims, **required_claims}.items()
            if value is not None
        }


def verify(audience: str, token: str) -> VerifiedToken:
    """Return a token that the credential with the id `audience` trusts.

    One read if the issuer's keys are cached. Raises Refused, issuer_keys.IssuerUnreachable, aws.Unavailable.
    """
    from chalicelib.federation import tokens  # imported here, because only exchanges need PyJWT

    try:
        unverified = tokens.read_unverified(token)
        credential, record = _read(audience, unverified.issuer)
        keys = issuer_keys.find(credential.issuer, unverified.kid, record)
        return VerifiedToken(audience, credential, tokens.verify(token, keys, credential, clock.seconds()))
    except tokens.Rejected as rejected:
        raise Refused(rejected.reason, is_signed=rejected.is_signed) from None
    except IssuerNotAllowed:
        raise Refused("issuer", is_signed=False) from None


def use_once(token: VerifiedToken) -> list[Write]:
    """Return the write that records the use of a single-use token, or no write for another token.

    The write fails with Refused if the token was used before.
    """
    claims = token.claims
    if not token.credential.single_use:
        return []
    digest = hashlib.sha256(f"{claims.issuer} {claims.token_id}".encode()).hexdigest()
    record = {"scope": f"jti#{digest}", "id": unique_keys.ID, "expires": claims.expires + _TOLERANCE, "revision": 1}
    return [Write.put(record, Condition("attribute_not_exists(#id)"), Refused("single_use"))]


def _read(audience: str, issuer: str) -> tuple[TrustedCredential, dict[str, Any] | None]:
    """Return an enabled federated credential, and the record with the keys of its issuer.

    `issuer` is the issuer that the unverified token names. Only keys of the issuer that the credential trusts are
    fetched.
    """
    if not kinds.FEDERATED_CREDENTIALS.has(audience):
        raise Refused("credential", is_signed=False)
    scope = federated_credentials.key_of(audience).scope
    record, keys = dynamodb.get_each((scope, unique_keys.ID), issuer_keys.key_of(issuer))
    try:
        credential = decoding.decode(TrustedCredential, record.get("body", {})) if record else None
    except MalformedRecord as malformed:
        decoding.report(scope, unique_keys.ID, malformed)
        raise Refused("credential", is_signed=False) from None
    if credential is None or not credential.scopes or not credential.enabled or credential.issuer != issuer:
        reason = (
            "credential"
            if credential is None or not credential.scopes
            else "issuer"
            if credential.enabled
            else "disabled"
        )
        raise Refused(reason, is_signed=False)
    return credential, keys


def _format_claim(value: Any) -> str | list[str]:
    """Return a claim for audit events: texts without control characters, cut at 255 bytes."""
    if isinstance(value, list):
        return [_format_text(entry) for entry in value if isinstance(entry, str | int)][:_MAX_ENTRIES]
    return _format_text(value)


def _format_text(value: str | int) -> str:
    return details.clean(str(value).lower() if isinstance(value, bool) else str(value))
