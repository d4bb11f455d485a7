"""Exchanges of tokens: the records that they read, used tokens and refusals."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chalicelib import clock
from chalicelib.federation import issuer_keys
from chalicelib.federation.issuer_keys import IssuerNotAllowed
from chalicelib.model.accounts import federated_credentials
from chalicelib.model.accounts.accounts import Owner
from chalicelib.model.audit import details, reading, trail
from chalicelib.model.audit.details import Details
from chalicelib.model.audit.trail import Event
from chalicelib.model.base import kinds, records
from chalicelib.model.base.records import Stored
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, ConditionFailed, Write
from chalicelib.storage.records import decoding, unique_keys
from chalicelib.storage.records.decoding import MalformedRecord

if TYPE_CHECKING:
    from chalicelib.federation.tokens import Claims

MAX_COUNTED = 100  # exchanges and refusals of an hour

_ISSUED = ("api_key.create", "ssh_user_certificate.create")  # actions of exchanges
_TOLERANCE = 60  # seconds by which clocks may differ
_REFUSALS = "refused"  # the id of the record
_MINUTE, _HOUR = 60, 60 * 60  # seconds
_MAX_ENTRIES = 20  # of a claim in an event

# The Unix second at which this process last tried to record a refusal, by the id of the credential.
_recorded: dict[str, int] = {}
_MAX_RECORDED = 10_000


class Refused(Exception):
    """An exchange is refused. `reason` is for the admin and contains no value of the token.

    `is_signed` is true if the signature of the token was valid. Only then is the refusal recorded.
    """

    def __init__(self, reason: str, *, is_signed: bool = True) -> None:
        super().__init__(reason)
        self.reason, self.is_signed = reason, is_signed


@dataclass(frozen=True, kw_only=True)
class TrustedCredential(Stored):
    """The attributes of the unique key of a federated credential.

    They repeat the credential, its owner and the rules of the account.
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
    max_idle_days: int | None = None
    account_lifetime: int | None = None
    require_scopes: bool = False

    @property
    def owner(self) -> Owner:
        """Return the owner that the credential names."""
        return Owner(self.owner_id, self.admin, self.active, self.name)

    @property
    def rules(self) -> dict[str, Any]:
        """Return the rules that the token of an issued key repeats."""
        return {"account_networks": self.account_networks, "max_idle_days": self.max_idle_days}


@dataclass(frozen=True)
class Refusals:
    """The recorded refusals of a credential. `at` is the Unix second of the last one, `reason` its reason."""

    at: int | None = None
    reason: str = ""
    last_hour: int = 0


@dataclass(frozen=True)
class VerifiedToken:
    """A token that a credential trusts."""

    credential_id: str
    credential: TrustedCredential
    claims: "Claims" = field(repr=False)

    @property
    def details(self) -> Details:
        """Return what events show of the token: the claims that the credential names, and no others."""
        own = {"issuer": self.claims.issuer, "subject": self.claims.subject, "token_id": self.claims.token_id}
        named = {f"claims.{name}": self.claims.all.get(name) for name in self.credential.claims}
        return {name: _shown(value) for name, value in {**own, **named}.items() if value is not None}


def verify(audience: str, token: str) -> VerifiedToken:
    """Return a token that the credential with the id `audience` trusts. One read if the issuer's keys are cached.

    Raises Refused, issuer_keys.IssuerUnreachable, aws.Unavailable.
    """
    from chalicelib.federation import tokens  # here, because only exchanges need PyJWT

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
    """Return the write that records the use of a token. It fails with Refused if the token was used."""
    claims = token.claims
    if not token.credential.single_use:
        return []
    digest = hashlib.sha256(f"{claims.issuer} {claims.token_id}".encode()).hexdigest()
    record = {"scope": f"jti#{digest}", "id": unique_keys.ID, "expires": claims.expires + _TOLERANCE, "revision": 1}
    return [Write.put(record, Condition("attribute_not_exists(#id)"), Refused("single_use"))]


def record_refusal(credential: str, reason: str) -> None:
    """Record that a signed token was refused, at most once a minute. Raises aws.Unavailable.

    The record has one attribute for each minute of an hour, so that it stays small.
    """
    now = clock.seconds()
    if now < _recorded.get(credential, 0) + _MINUTE:
        return
    if len(_recorded) >= _MAX_RECORDED:
        _recorded.clear()
    _recorded[credential] = now
    due = Condition("attribute_not_exists(#at) OR #at <= :past", {"past": now - _MINUTE})
    expires = trail.kept_until(clock.at(now))
    sets = {"at": now, "reason": reason, f"minute_{now // _MINUTE % 60}": now, "expires": expires}
    try:
        dynamodb.do(Write.update(federated_credentials.key_of(credential).scope, _REFUSALS, due, sets=sets))
    except ConditionFailed:
        return


def read_refusals(credential: str) -> Refusals:
    """Return the recorded refusals of a credential. One read. Raises aws.Unavailable."""
    record = dynamodb.get(federated_credentials.key_of(credential).scope, _REFUSALS)
    if record is None:
        return Refusals()
    past = clock.seconds() - _HOUR
    recent = [value for name, value in record.items() if name.startswith("minute_") and value > past]
    return Refusals(record["at"], record["reason"], min(len(recent), MAX_COUNTED))


def list_exchanges(account: str, credential: str) -> list[str]:
    """Return the times of the newest exchanges with a credential, newest first. Raises aws.Unavailable."""
    found, _ = reading.page_of_actor(account, credential, before=None, count=MAX_COUNTED) or ([], False)
    return [event.created_at for _, event in records.decoded(Event, found) if event.action in _ISSUED]


def _read(audience: str, issuer: str) -> tuple[TrustedCredential, dict[str, Any] | None]:
    """Return an enabled credential, and the record of the keys of its issuer.

    `issuer` is what the token names: only the keys of the credential's own issuer are ever fetched.
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


def _shown(value: Any) -> str | list[str]:
    """Return a claim as events show it: texts without control characters, cut at 255 bytes."""
    if isinstance(value, list):
        return [_shown_text(entry) for entry in value if isinstance(entry, str | int)][:_MAX_ENTRIES]
    return _shown_text(value)


def _shown_text(value: str | int) -> str:
    return details.cleaned(str(value).lower() if isinstance(value, bool) else str(value))
