"""The fields of federated credentials in requests and responses."""

from typing import Annotated, Any

from chalicelib.model.accounts import federated_credentials
from chalicelib.resources.accounts.api_keys import BOUNDED, Scope
from chalicelib.schema.fields import DescribedShape, OwnerId, Text, Timestamp, TracedShape
from chalicelib.schema.rules import After, between, entries, if_null, max_bytes
from chalicelib.schema.shapes import Shape

_MAX_NAME, _MAX_PATTERN, _MAX_PATTERNS = 64, 512, 20
_MAX_AUDIENCE = 255


def _check_issuer(text: str) -> str:
    from chalicelib.federation import issuers  # imported here, to save time in requests without a body

    if problem := issuers.find_problem(text):
        raise ValueError(problem)
    return text


def _check_names(values: dict[str, Any]) -> dict[str, Any]:
    if not all(1 <= len(name.encode()) <= _MAX_NAME for name in values):
        raise ValueError(f"must have claim names of 1 to {_MAX_NAME} bytes")
    return values


def _check_patterns(value: object) -> object:
    entries = value if isinstance(value, list) else [value]
    if not 1 <= len(entries) <= _MAX_PATTERNS or not all(map(_is_pattern, entries)):
        raise ValueError(f"must be a pattern of 1 to {_MAX_PATTERN} bytes, or a list of 1 to {_MAX_PATTERNS} patterns")
    return value


def _is_pattern(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value.encode()) <= _MAX_PATTERN


def _check_audience(text: str) -> str:
    if not text:
        raise ValueError("must not be empty")
    return text


def _require_openid(names: list[str]) -> list[str]:
    if "openid" not in names:
        raise ValueError("must contain openid")
    return names


Claims = Annotated[
    dict[str, Annotated[Any, After(_check_patterns)]],
    entries(1, 20),
    After(_check_names, {"propertyNames": {"maxLength": _MAX_NAME}}),
]
Audience = Annotated[str, After(_check_audience, {"minLength": 1}), max_bytes(_MAX_AUDIENCE)]
Audiences = Annotated[list[Audience], entries(1, 10)]
Flag = Annotated[bool, if_null(False)]
Lifetime = Annotated[int, between(federated_credentials.MIN_LIFETIME, federated_credentials.MAX_LIFETIME)]


class SignInClient(Shape):
    """The public parameters that a client uses to sign a person in."""

    client_id: Annotated[Text, max_bytes(_MAX_AUDIENCE)] = ""
    """The id of the client at the issuer. It must be one of `audiences`."""

    client_secret: Annotated[Text, max_bytes(_MAX_AUDIENCE)] = ""
    """A secret that some issuers require of installed applications. It is public."""

    scopes: Annotated[
        list[Annotated[str, max_bytes(_MAX_AUDIENCE)]],
        entries(1, 20),
        After(_require_openid),
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

    sign_in: SignInClient | None = None
    """The public parameters of a sign-in at the issuer. An empty object removes them."""


class FederatedCredentialCreate(FederatedCredentialChange):
    issuer: Annotated[str, After(_check_issuer, {"format": "oidc-issuer"})]
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
    """The tokens of an OpenID Connect issuer that the account trusts, and the user or bot for which they act.

    For admins only.
    """

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
    """True: a missing user is created."""

    scopes: list[str]
    """The scopes of issued keys."""

    max_lifetime: int
    """Maximum lifetime of issued keys and certificates in seconds."""

    single_use: bool
    """Whether a token can be exchanged only once."""

    enabled: bool
    """False: exchanges are refused."""

    sign_in: SignInClient | None
    """The public parameters of a sign-in at the issuer; null if unset."""


class LastRefusal(Shape):
    """The latest exchange that was refused although the signature of its token was valid."""

    at: Timestamp
    """When the exchange was refused, RFC 3339."""

    reason: str
    """The reason: `expired`, `not_yet_valid`, `audience`, `claim:<name>`, `owner`, `owner_inactive`, `identity`,
    `disabled` or `single_use`."""


class FederatedCredentialUsage(Shape):
    """The exchanges and refusals of the last hour. At most one refusal per minute is recorded."""

    last_used_at: Timestamp | None
    """When a token was last exchanged, RFC 3339; null if never."""

    exchanges_last_hour: int
    """The number of exchanges in the last hour; 100 means 100 or more."""

    refused_last_hour: int
    """The number of minutes of the last hour in which exchanges were refused."""

    last_refusal: LastRefusal | None
    """The last refused exchange; null if there is none."""


class SignInParameters(Shape):
    """The parameters that a client uses to sign a person in. All of them are public."""

    issuer: str
    """The issuer."""

    client_id: str
    """The id of the client at the issuer."""

    client_secret: str
    """A secret that some issuers require of installed applications; empty if there is none. It is public."""

    scopes: list[str]
    """The scopes that the client requests."""

    audience: str
    """The id of the federated credential, for `audience` of the exchange."""
