"""The parameters and responses of POST /tokens (RFC 8693)."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from chalicelib.http.oauth import FormText
from chalicelib.model.accounts import federated_credentials, scopes
from chalicelib.resources.ssh.ssh_user_certificates import SSHUserCertificate, UserCreate
from chalicelib.schema.fields import SECRET, Timestamp
from chalicelib.schema.rules import After, Before, between
from chalicelib.schema.shapes import ABSENT, Shape
from chalicelib.schema.ssh_fields import Principals

GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
CERTIFICATE = "urn:tunnel-edge:token-type:ssh_user_certificate"


def _check_scope(text: str) -> str:
    """Return the text if it consists of valid scopes, separated by single spaces. Raises ValueError."""
    scope_names = text.split(" ")
    if len(scope_names) > scopes.MAX_COUNT:
        raise ValueError(f"must have at most {scopes.MAX_COUNT} scopes")
    scopes.check_size(scope_names)
    for name in scope_names:
        scopes.check(name)
    return text


def _require_entry(names: list[str]) -> list[str]:
    if not names:
        raise ValueError("must contain at least one name")
    return names


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, FormText) and re.fullmatch("[1-9][0-9]{0,8}", value) else value


_BOUNDS = between(federated_credentials.MIN_LIFETIME, federated_credentials.MAX_LIFETIME)


class TokenCertificate(UserCreate):
    """The certificate that an exchange signs."""

    principals: Annotated[Principals, After(_require_entry, {"minItems": 1})]
    """Names of users as whom the holder may sign in to machines that trust the authority. At least one name."""


class TokenRequest(Shape):
    grant_type: Literal["urn:ietf:params:oauth:grant-type:token-exchange"]
    """The grant of RFC 8693."""

    subject_token: str
    """The token (JWT) that the issuer signed, at most 16 KiB."""

    subject_token_type: Literal["urn:ietf:params:oauth:token-type:jwt", "urn:ietf:params:oauth:token-type:id_token"]
    """The type of the token."""

    audience: str
    """The id of the federated credential."""

    scope: Annotated[str, After(_check_scope)] = ""
    """Scopes of the key, separated by spaces. Each must be within the credential's scopes. Default: all of these."""

    requested_token_type: Literal["urn:ietf:params:oauth:token-type:access_token"] | None = None
    """The type of the requested token."""

    lifetime: Annotated[int, _BOUNDS, Before(_number)] = 0
    """The lifetime of the key or certificate in seconds. The default and maximum is the credential's `max_lifetime`."""

    client_id: str = ""
    """If present, it must be the value of `audience`. OAuth clients without a secret send it."""

    certificate: TokenCertificate | None = None
    """The body of POST /ssh_user_certificates, to sign a certificate instead of creating a key. Not in a form, only in
    JSON."""


class TokenOwner(Shape):
    """The user or bot for which the exchange acts."""

    id: str
    """Its id."""

    name: str
    """Its name."""


class IssuedToken(Shape):
    """A short-lived API key, or a short-lived SSH user certificate."""

    issued_token_type: str
    """The type of the issued token."""

    token_type: Literal["Bearer", "N_A"]
    """`Bearer` for a key, `N_A` for a certificate."""

    expires_in: int
    """The seconds until the key or certificate ends."""

    access_token: Annotated[str, SECRET] = ABSENT
    """The token of the key, for the Authorization header."""

    expires_at: Timestamp = ABSENT
    """When the key ends, RFC 3339."""

    scope: str = ABSENT
    """The scopes of the key, separated by spaces."""

    id: str = ABSENT
    """The id of the key."""

    owner: TokenOwner = ABSENT
    """The user or bot that owns the key."""

    ssh_user_certificate: SSHUserCertificate = ABSENT
    """The certificate."""
