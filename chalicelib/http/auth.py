"""Authentication (SPEC 5, 9): the caller of a request, the caller's account, and the owner of a new resource.

Imports neither Chalice nor pydantic, so that the Lambda function of the API Gateway authorizer can use it.
"""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from chalicelib import ids
from chalicelib.http.errors import Forbidden, Unauthenticated, UnknownReference, UnsupportedVersion
from chalicelib.http.limits import admission
from chalicelib.http.limits.admission import Limited
from chalicelib.model.accounts import accounts, api_keys, networks, scopes
from chalicelib.model.accounts.accounts import Owner
from chalicelib.model.accounts.api_keys import UNLIMITED, KeyLimits, VerifiedKey
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.limits import rates
from chalicelib.storage.client.aws import AwsError

VERSIONS = ("2", "0")  # supported values of the version header, the current one first
VERSION_HEADER = "Service-Version"  # the default of the setting VERSION_HEADERS
_FORMS = "te_[0-9A-Za-z]{27}_[0-9A-Za-z_-]{32}[0-9A-Za-z]{6}|[0-9A-Za-z]{27}_[0-9A-Za-z_-]{1,100}"
_BEARER = re.compile(f"(?i:Bearer) +({_FORMS})", flags=re.ASCII)


@dataclass(frozen=True)
class Caller:
    """The user or bot that sends a request, with its API key and API version.

    `key` is the id of the API key or, in an exchange, of the federated credential. The operator has the key `operator`.
    """

    account: str
    id: str
    admin: bool
    version: str = VERSIONS[0]
    key: str = ""
    limits: KeyLimits = UNLIMITED
    used: int = 0  # the Unix second of the last recorded use of the API key
    name: str = ""  # the name of the user or bot
    federated: str = ""  # ids of the federated credentials from which the key descends, separated by spaces

    @property
    def limited(self) -> Limited:
        """Return the caller's account and API key, with the limits of their requests."""
        return Limited(self.account, self.key, self.limits)

    def scope(self, path: str) -> str:
        """Return the partition key `scope` of the items that the list at a path shows, in the caller's account."""
        return f"{self.account}#{path}"

    def owner(self, requested: str) -> Owner:
        """Return the owner of a new resource (SPEC 5.4): by default the caller. Only admins may request another owner.

        Raises Forbidden, UnknownReference, aws.Unavailable.
        """
        if requested in ("", self.id):
            return Owner(self.id, self.admin, name=self.name)  # no check required: inactive callers cannot authenticate
        if not self.admin:
            raise Forbidden("Only an admin may set another owner_id.", {"owner_id": "must be absent or your own id"})
        owner = accounts.find_owner(self.account, requested)
        if owner is None:
            raise UnknownReference(
                "'owner_id' names no user or bot of this account.",
                {"owner_id": "must be the id of a user or bot of this account"},
            )
        return owner

    @property
    def acts_for_all(self) -> bool:
        """Return whether the caller may change keys and SSH authorities that other users and bots own.

        Admins always may. Other callers may if MEMBERS_ACT_FOR_ALL is true.
        """
        return self.admin or os.environ.get("MEMBERS_ACT_FOR_ALL", "false").strip().lower() == "true"

    def require_admin(self, action: str) -> None:
        """Raise Forbidden if the caller is not an admin. `action` completes the sentence of the error."""
        if not self.admin:
            raise Forbidden(f"Only an admin may {action}.")

    def require(self, scope: str) -> None:
        """Raise Forbidden if the caller's API key, or in an exchange the federated credential, lacks a scope."""
        if not self.limits.covers(scope):
            raise _build_scope_error(self, scope)

    def readable_ids(self, kind: Kind) -> frozenset[str] | None:
        """Return the ids of a kind of resource that the caller's API key may list. Return None if it may list all."""
        return scopes.readable_ids(self.limits.scopes, kind) if self.limits.scopes else None

    def as_context(self) -> dict[str, str]:
        """Return the caller as the strings that API Gateway passes from the authorizer to the app."""
        return {
            "account": self.account,
            "caller": self.id,
            "admin": "true" if self.admin else "false",
            **({"version": self.version} if self.version else {}),
            "key": self.key,
            "scopes": " ".join(self.limits.scopes),
            "expires": str(self.limits.expires or ""),
            "networks": " ".join(self.limits.networks),
            "account_networks": " ".join(self.limits.account_networks),
            "used": str(self.used),
            "name": self.name,
            **({"federated": self.federated} if self.federated else {}),
            **({"rates": _format_limits(self.limits.rates)} if self.limits.rates else {}),
            **({"account_rates": _format_limits(self.limits.account_rates)} if self.limits.account_rates else {}),
        }

    @staticmethod
    def from_context(context: Mapping[str, str]) -> "Caller":
        """Return the caller from the context that `as_context` made."""
        admin, key, expires = context["admin"] == "true", context.get("key", ""), context.get("expires", "")
        scopes, key_networks = tuple(context.get("scopes", "").split()), tuple(context.get("networks", "").split())
        account_networks = tuple(context.get("account_networks", "").split())
        limited = (_parse_limits(context.get(name, "")) for name in ("rates", "account_rates"))
        end = int(expires) if expires else None
        limits = KeyLimits(scopes, end, key_networks, account_networks, *limited)
        last_used = int(context.get("used", "0"))
        identity, version = (context["account"], context["caller"], admin), context.get("version", "")
        return Caller(*identity, version, key, limits, last_used, context.get("name", ""), context.get("federated", ""))


ANONYMOUS = Caller(account="", id="", admin=False)  # the caller of endpoints that require no authentication


def authenticate(headers: Mapping[str, str], address: str = "") -> Caller:
    """Return the caller that a request's headers authenticate.

    Header names are not case-sensitive. The caller's version is "" if the headers do not contain a supported version.
    Raises Unauthenticated, aws.Unavailable; RateLimited for an address that sends too many invalid tokens.
    """
    lower_headers = {name.lower(): value for name, value in headers.items()}
    try:
        verified_key = _verify(_read_token(lower_headers.get("authorization", "")))
    except Unauthenticated:
        admission.reject(address)
        raise
    owner, version = verified_key.owner, ""
    with suppress(UnsupportedVersion):  # a missing version is reported later, after the limits are checked
        version = _read_version(lower_headers)
    limits, last_used = verified_key.limits, verified_key.last_used
    identity, root = (verified_key.account, owner.id, owner.admin), verified_key.federated
    return Caller(*identity, version, verified_key.key, limits, last_used, owner.name, root)


def limit(
    caller: Caller, method: str, template: str, query: Mapping[str, Sequence[str]], headers: dict[str, str]
) -> None:
    """Count a request toward the caller's limits, and add the headers that describe these limits.

    `template` is the endpoint's path. Raises RateLimited if the account or API key sends too many requests.
    """
    limits, settings = caller.limits, rates.SETTINGS.values()
    if limits.rates or limits.account_rates or any(os.environ.get(name, "0") != "0" for name in settings):
        admission.admit(caller.limited, method, template, query, headers)


def require_version(caller: Caller, headers: Mapping[str, str]) -> None:
    """Raise UnsupportedVersion if the request names no supported version in its `headers`."""
    if not caller.version:
        raise _build_version_error({name.lower(): value for name, value in headers.items()})


def check_version(headers: Mapping[str, str]) -> None:
    """Raise UnsupportedVersion for headers with a version that is not supported."""
    lower_headers = {name.lower(): value for name, value in headers.items()}
    if any(name.lower() in lower_headers for name in version_headers()):
        _read_version(lower_headers)


def admit(caller: Caller, method: str, template: str, path: Mapping[str, str], address: str) -> None:
    """Record that the caller's API key is used.

    Raises Forbidden if the key lacks the scope for a request, or must not be used from the client's address. `template`
    is the path of the endpoint, `path` has the values of its variables.
    """
    with suppress(AwsError):  # the request must not fail if the use of the key cannot be recorded
        api_keys.record_use(caller.key, caller.used)
    key_scopes = caller.limits.scopes
    if key_scopes and (missing := scopes.find_missing(key_scopes, method, template, path)):
        raise _build_scope_error(caller, missing)
    for bounds in (caller.limits.networks, caller.limits.account_networks):
        if bounds and not networks.contain(bounds, address):
            raise Forbidden("This API key cannot be used from your address, which its allowed networks do not contain.")


def admit_references(caller: Caller, values: Mapping[str, Any], at: str) -> None:
    """Raise Forbidden if a body names resources that the caller's API key must not read.

    `at` is the prefix of the dotted paths that the error names.
    """
    if unreadable := scopes.find_unreadable(caller.limits.scopes, values):
        details = {f"{at}{path}": f"requires the scope {scope}" for path, scope in unreadable.items()}
        raise Forbidden("The API key must not read a resource in the body: it needs the scopes in 'details'.", details)


def require_admin(caller: Caller) -> None:
    """Raise Forbidden unless the caller is an admin. Only admins may see and change bots."""
    caller.require_admin("see and change bots")


def version_headers() -> list[str]:
    """Return the names of the headers that may carry the version.

    The OpenAPI document names only the first.
    """
    return [name.strip() for name in (os.environ.get("VERSION_HEADERS") or VERSION_HEADER).split(",")]


def _build_scope_error(caller: Caller, scope: str) -> Forbidden:
    credential = "federated credential" if kinds.FEDERATED_CREDENTIALS.has(caller.key) else "API key"
    return Forbidden(f"This {credential} lacks the scope {scope}.")


def _read_token(authorization: str) -> str:
    text = authorization.strip(" \t")
    form = _BEARER.fullmatch(text)
    if not form:
        raise Unauthenticated(f"{_diagnose(text)}Send the header 'Authorization: Bearer <token of an API key>'.")
    return form[1]


def _diagnose(text: str) -> str:
    """Return a sentence about a credential that is not a valid token, or "".

    A space follows the sentence. It quotes no part of the credential, because the client may have sent a secret.
    """
    scheme, _, credential = text.partition(" ")
    word = text.rpartition(" ")[2]
    if not text:
        return ""
    if ids.is_id(word, word.partition("_")[0]):
        return "This is an id: the token of a key is shown once, when the key is created. "
    if scheme.lower() == "bearer":
        return (
            "This token is incomplete, or not of this service. A token has 69 characters and begins with 'te_'. "
            if credential
            else ""
        )
    if _BEARER.fullmatch(f"Bearer {text}"):
        return "The word Bearer is missing before the token. "
    return f"This is {'a Basic login' if scheme.lower() == 'basic' else 'not the scheme Bearer'}. "


def _verify(token: str) -> VerifiedKey:
    verified_key = api_keys.find(token)
    if verified_key is None:
        raise Unauthenticated("The API key is unknown or was deleted.")
    if not verified_key.owner.active:
        kind = "bot" if kinds.BOT_USERS.has(verified_key.owner.id) else "user"
        raise Unauthenticated(f"The {kind} that owns the API key is inactive or was deleted.")
    if verified_key.is_disabled:
        raise Unauthenticated("The federated credential that issued the API key is disabled.")
    return verified_key


def _read_version(lower_headers: Mapping[str, str]) -> str:
    versions = _list_versions(lower_headers)
    if len(versions) != 1 or not versions & {*VERSIONS}:
        raise _build_version_error(lower_headers)
    return versions.pop()


def _list_versions(lower_headers: Mapping[str, str]) -> set[str]:
    return {lower_headers[name.lower()].strip() for name in version_headers() if name.lower() in lower_headers}


def _build_version_error(lower_headers: Mapping[str, str]) -> UnsupportedVersion:
    names = version_headers()
    if len(_list_versions(lower_headers)) > 1:
        return UnsupportedVersion(f"The headers {_quote(names)} name different versions: send one of them.")
    return UnsupportedVersion(unsupported_version(names))


def _format_limits(limits: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in limits.items())


@lru_cache(maxsize=1024)
def _parse_limits(text: str) -> Mapping[str, int]:
    pairs = (entry.partition("=") for entry in text.split())
    return MappingProxyType({name: int(value) for name, _, value in pairs})


def unsupported_version(headers: Sequence[str]) -> str:
    """Return the error message for a request that names no supported API version in these headers."""
    words = f"the header {_quote(headers)}" if len(headers) == 1 else f"one of the headers {_quote(headers)}"
    return f"Send {words} with a supported version: {' or '.join(VERSIONS)}."


def _quote(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
