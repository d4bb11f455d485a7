"""Federated credentials: tokens of an OpenID Connect issuer that the account trusts, and whom they act for.

They are for admins only. Changes require the scope `*`, because a federated credential lets its tokens act as someone
else.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from chalicelib.federation import claims, issuers
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Endpoint
from chalicelib.http.errors import Conflict, Forbidden, InvalidRequest, UnknownReference
from chalicelib.http.resource import EditableResource, New
from chalicelib.model.accounts import federated_credentials, scopes
from chalicelib.model.accounts.federated_credentials import FederatedCredential, SignIn
from chalicelib.model.base import kinds, records, switches
from chalicelib.resources.accounts import offboarding
from chalicelib.resources.accounts.api_keys import BOUNDED, Scope
from chalicelib.resources.accounts.offboarding import MakerOffboard
from chalicelib.schema.fields import DescribedShape, OwnerId, Text, TracedShape
from chalicelib.schema.rules import After, Plain, between, entries, if_null, max_bytes
from chalicelib.schema.shapes import Shape
from chalicelib.storage.records import places, table
from chalicelib.storage.records.items import Item

_MAX_NAME, _MAX_PATTERN, _MAX_PATTERNS = 64, 512, 20
_MAX_AUDIENCE = 255
_FORMS = {
    "type": ["string", "array"],
    "minLength": 1,
    "maxLength": _MAX_PATTERN,
    "items": {"type": "string", "minLength": 1, "maxLength": _MAX_PATTERN},
    "minItems": 1,
    "maxItems": _MAX_PATTERNS,
}


def _issuer(text: str) -> str:
    if problem := issuers.find_problem(text):
        raise ValueError(problem)
    return text


def _names(values: dict[str, Any]) -> dict[str, Any]:
    if not all(1 <= len(name.encode()) <= _MAX_NAME for name in values):
        raise ValueError(f"must have claim names of 1 to {_MAX_NAME} bytes")
    return values


def _patterns(value: object) -> object:
    entries = value if isinstance(value, list) else [value]
    if not 1 <= len(entries) <= _MAX_PATTERNS or not all(map(_is_pattern, entries)):
        raise ValueError(f"must be a pattern of 1 to {_MAX_PATTERN} bytes, or a list of 1 to {_MAX_PATTERNS} patterns")
    return value


def _is_pattern(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value.encode()) <= _MAX_PATTERN


def _audience(text: str) -> str:
    if not text:
        raise ValueError("must not be empty")
    return text


def _with_openid(names: list[str]) -> list[str]:
    if "openid" not in names:
        raise ValueError("must contain openid")
    return names


Claims = Annotated[dict[str, Annotated[Any, Plain(_patterns, _FORMS)]], entries(1, 20), After(_names)]
Audience = Annotated[str, After(_audience, {"minLength": 1}), max_bytes(_MAX_AUDIENCE)]
Audiences = Annotated[list[Audience], entries(1, 10)]
Flag = Annotated[bool, if_null(False)]
Lifetime = Annotated[int, between(federated_credentials.MIN_LIFETIME, federated_credentials.MAX_LIFETIME)]


class FederatedCredentialSignIn(Shape):
    """What a client needs to let a person sign in. All of it is public: anyone who signs in receives it."""

    client_id: Annotated[Text, max_bytes(_MAX_AUDIENCE)] = ""
    """The id of the client at the issuer. It must be one of `audiences`."""

    client_secret: Annotated[Text, max_bytes(_MAX_AUDIENCE)] = ""
    """A secret that some issuers require of installed applications. It is public."""

    scopes: Annotated[
        list[Annotated[str, max_bytes(_MAX_AUDIENCE)]],
        entries(1, 20),
        After(_with_openid),
        if_null(["openid", "email"]),
    ] = ["openid", "email"]
    """The scopes that the client requests. They must contain `openid`."""


class FederatedCredentialChange(DescribedShape):
    audiences: Audiences | None = None
    """The accepted audiences. A token must contain one of them. Default: the id of the credential."""

    claims: Claims | None = None
    """The claims that a token must contain: each has a pattern, or a list of patterns of which one must match. `*` in a
    pattern matches any text.
    """

    provision: Flag = False
    """True: creates a user with the role `member` if no user has the name. Only with `owner_claim`."""

    scopes: Annotated[list[Scope], *BOUNDED] | None = None
    """The scopes of issued keys."""

    max_lifetime: Annotated[Lifetime, if_null(federated_credentials.DEFAULT_LIFETIME)] = (
        federated_credentials.DEFAULT_LIFETIME
    )
    """Maximum lifetime of issued keys and certificates in seconds."""

    single_use: Flag = False
    """True: a token must contain `jti` and can be exchanged once."""

    enabled: Annotated[bool, if_null(True)] = True
    """False: exchanges are refused."""

    sign_in: FederatedCredentialSignIn | None = None
    """What a client needs to let a person sign in. An empty object removes it."""


class FederatedCredentialCreate(FederatedCredentialChange):
    issuer: Annotated[str, After(_issuer, {"format": "oidc-issuer"})]
    """The issuer, an https:// URL that the operator allows. Compared with `iss` byte for byte. It cannot be changed."""

    claims: Claims
    """The claims that a token must contain: each has a pattern, or a list of patterns of which one must match. `*` in a
    pattern matches any text. A claim that names a tenant of the issuer is required.
    """

    scopes: Annotated[list[Scope], *BOUNDED]
    """The scopes of issued keys."""

    owner_id: OwnerId = ""
    """User or bot for which the tokens act. Exactly one of `owner_id` and `owner_claim` is required."""

    owner_claim: Annotated[Text, max_bytes(_MAX_NAME)] = ""
    """The claim that contains the name of the user for which a token acts. It cannot be changed."""


class FederatedCredentialShown(DescribedShape, TracedShape):
    """The tokens of an OpenID Connect issuer that the account trusts, and whom they act for. For admins only."""

    issuer: str
    """The issuer."""

    audiences: list[str]
    """The accepted audiences."""

    claims: Claims
    """The claims that a token must contain."""

    owner_id: str
    """User or bot for which the tokens act; empty if `owner_claim` names it."""

    owner_claim: str
    """The claim that contains the name of the user; empty if `owner_id` is set."""

    provision: bool
    """Whether a missing user is created."""

    scopes: list[str]
    """The scopes of issued keys."""

    max_lifetime: int
    """Maximum lifetime of issued keys and certificates in seconds."""

    single_use: bool
    """Whether a token can be exchanged only once."""

    enabled: bool
    """False: exchanges are refused."""

    sign_in: FederatedCredentialSignIn | None
    """What a client needs to let a person sign in; null if unset."""


def make(caller: Caller, id: str, request: FederatedCredentialCreate) -> New:
    """Return a new credential. Raises InvalidRequest, UnknownReference, Conflict, aws.Unavailable."""
    if places.written_format() < 4:
        raise Conflict("Federated credentials can be created once RECORD_FORMAT is 4: earlier versions ignore them.")
    if bool(request.owner_id) == bool(request.owner_claim):
        raise InvalidRequest.of({"owner_id": "is required, unless owner_claim is set; only one of them may be"})
    values = request.values()
    stored = FederatedCredential.of(
        {
            **{name: value for name, value in values.items() if value is not None},
            "audiences": request.audiences or [id],
            "sign_in": _sign_in(values.get("sign_in")),
        }
    )
    _check(stored)
    if request.owner_id:
        caller.owner(request.owner_id)
    if len([*table.every(caller.scope(kinds.FEDERATED_CREDENTIALS.path))]) >= federated_credentials.MAX_COUNT:
        raise Conflict(f"An account has at most {federated_credentials.MAX_COUNT} federated credentials.")
    return New(stored)


def _sign_in(values: Mapping[str, Any] | None) -> SignIn | None:
    """Return the stored sign-in parameters, None if the object is empty."""
    return SignIn.of({"scopes": ["openid", "email"], **values}) if values else None


def _check(stored: FederatedCredential) -> None:
    """Raise InvalidRequest for fields that do not fit each other."""
    wrong = {}
    if missing := issuers.find_missing_tenant(stored.issuer, stored.claims):
        wrong["claims"] = f"must contain {' or '.join(missing[0])}, with patterns without {claims.ANY}"
    if stored.provision and not stored.owner_claim:
        wrong["provision"] = "must be false without owner_claim"
    if stored.sign_in and stored.sign_in.client_id not in stored.audiences:
        wrong["sign_in.client_id"] = "must be one of audiences"
    if wrong:
        raise InvalidRequest.of(wrong)


def _permit(caller: Caller) -> None:
    if not caller.admin:
        raise Forbidden("Only an admin may see and change federated credentials.")


def _permit_changes(caller: Caller) -> None:
    _permit(caller)
    caller.require(scopes.ALL)


class FederatedCredentials(EditableResource):
    """Federated credentials. Changes require the scope `*`."""

    def endpoints(self) -> tuple[Endpoint, ...]:
        every = super().endpoints()
        changes = (it if it.method == "GET" else it._replace(permits=_permit_changes) for it in every)
        return (*changes, offboarding.endpoint(self, MakerOffboard))

    def changed(self, item: Item, request: Shape) -> Item:
        """Return the credential with the requested fields. Raises InvalidRequest if they do not fit each other."""
        before = records.decode(FederatedCredential, item)
        fields = request.fields_set()
        if "sign_in" in fields:
            fields["sign_in"] = _sign_in(fields["sign_in"])
        after = replace(before, **fields)
        _check(after)
        item = switches.remove_marker(item, switches.OFFBOARDED) if after.enabled else item
        return replace(item, body=records.body_of_change(item, before, after))


RESOURCE = FederatedCredentials(
    kind=kinds.FEDERATED_CREDENTIALS,
    stored=FederatedCredential,
    create=FederatedCredentialCreate,
    change=FederatedCredentialChange,
    response=FederatedCredentialShown,
    make=make,
    errors={
        "GET": (Forbidden,),
        "POST": (Forbidden, UnknownReference, Conflict),
        "PATCH": (Forbidden,),
        "DELETE": (Forbidden,),
    },
    permits=_permit,
)
