"""The issuers that the operator allows with OIDC_ISSUERS, and their tenant claims.

Many customers (tenants) share an issuer such as GitHub. A tenant claim, such as GitHub's repository_owner_id, shows to
which tenant a token belongs.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from chalicelib.federation import claims
from chalicelib.federation.claims import Patterns

MAX_BYTES = 255  # the maximum length of an issuer's URL
DEFAULT = (
    "https://token.actions.githubusercontent.com=repository_id|repository_owner_id "
    "https://gitlab.com=project_id|namespace_id https://agent.buildkite.com=organization_id|organization_slug "
    "https://accounts.google.com=hd|sub https://login.microsoftonline.com/*/v2.0= https://*.okta.com= "
    "https://*.okta.com/oauth2/*= https://*.auth0.com/= https://*.*.auth0.com/= https://oidc.eks.*.amazonaws.com/id/*="
)

_LOOPBACK = "127.0.0.1"
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HTTPS = rf"https://({_LABEL}(?:\.{_LABEL})*)(?::([1-9][0-9]{{0,4}}))?(/[A-Za-z0-9._~:@%+/-]*)?"
_LOCAL = rf"https?://({re.escape(_LOOPBACK)}):([1-9][0-9]{{0,4}})(/[A-Za-z0-9._~:@%+/-]*)?"
_MICROSOFT = "https://login.microsoftonline.com/"
_SHARED_TENANTS = {"common", "organizations", "consumers", "9188040d-6c67-4c5b-b112-36a304b66dad"}


@dataclass(frozen=True)
class AllowedIssuer:
    """An entry of OIDC_ISSUERS: a pattern for issuers, and their tenant claims.

    If there are tenant claims, a federated credential must require exact values of at least one tenant claim.
    """

    pattern: str
    tenant_claims: tuple[str, ...]


def read_setting() -> tuple[AllowedIssuer, ...]:
    """Return the entries of the setting OIDC_ISSUERS. If it is not set, return the entries of DEFAULT."""
    return _parse(os.environ.get("OIDC_ISSUERS") or DEFAULT)


def find_problem(issuer: str) -> str | None:
    """Return the rule that an issuer breaks, or None if the issuer is allowed."""
    if len(issuer.encode()) > MAX_BYTES:
        return f"must have at most {MAX_BYTES} bytes"
    if not _is_well_formed(issuer):
        return "must be an https:// URL without a query, a fragment, user info or the port 443"
    if issuer.startswith(_MICROSOFT) and issuer.removeprefix(_MICROSOFT).split("/")[0].lower() in _SHARED_TENANTS:
        return "must be the issuer of one Microsoft tenant, not one that all tenants or personal accounts share"
    if not _list_matches(issuer):
        return f"must match one of {', '.join(entry.pattern for entry in read_setting())}"
    return None


def find_missing_tenant(issuer: str, required: Patterns) -> list[tuple[str, ...]]:
    """Return the groups of tenant claims for which a federated credential requires no exact value.

    The tenant claims of an entry of OIDC_ISSUERS are a group. For each entry that matches the issuer, the credential
    must require an exact value of at least one claim of the group. Otherwise the credential would also accept tokens of
    other tenants. `required` are the claim patterns of the credential. A pattern with `*` is not an exact value.
    """
    groups = [entry.tenant_claims for entry in _list_matches(issuer) if entry.tenant_claims]
    return [group for group in groups if not any(_is_literal(claims.list_patterns(required, name)) for name in group)]


def allows_loopback(port: int) -> bool:
    """Return whether an entry of OIDC_ISSUERS names 127.0.0.1 and this port, without a `*` in either."""
    return any(_find_origin(entry.pattern) == f"{_LOOPBACK}:{port}" for entry in read_setting())


@lru_cache(maxsize=8)
def _parse(setting: str) -> tuple[AllowedIssuer, ...]:
    """Return the entries in a value of OIDC_ISSUERS. An entry without `=` has the tenant claim `sub`."""
    return tuple(_parse_entries(setting))


def _parse_entries(setting: str) -> Iterator[AllowedIssuer]:
    for entry in setting.split():
        pattern, equals, names = entry.partition("=")
        yield AllowedIssuer(pattern, tuple(names.split("|")) if names else () if equals else ("sub",))


def _list_matches(issuer: str) -> list[AllowedIssuer]:
    return [entry for entry in read_setting() if _matches(entry.pattern, issuer)]


@lru_cache(maxsize=256)
def _compile(pattern: str) -> re.Pattern[str]:
    """Return a regular expression for a pattern of issuers. A `*` is one label of the host or one path segment."""
    scheme, separator, rest = pattern.partition("://")
    host, slash, path = rest.partition("/")
    parts = ("[^./:]+".join(map(re.escape, host.split("*"))), "[^/]+".join(map(re.escape, path.split("*"))))
    return re.compile(f"{re.escape(scheme + separator)}{parts[0]}{slash}{parts[1]}")


def _matches(pattern: str, issuer: str) -> bool:
    if _find_origin(issuer).startswith(f"{_LOOPBACK}:") and _find_origin(pattern) != _find_origin(issuer):
        return False
    return _compile(pattern).fullmatch(issuer) is not None


def _is_well_formed(issuer: str) -> bool:
    match = re.fullmatch(_LOCAL, issuer) or re.fullmatch(_HTTPS, issuer)
    if not match or int(match[2] or 0) > 65535 or (issuer.startswith("https:") and match[2] == "443"):
        return False
    return not {".", ".."} & set((match[3] or "").split("/")) and "//" not in (match[3] or "")


def _find_origin(url: str) -> str:
    """Return the host and port of an issuer or a pattern."""
    return url.partition("://")[2].partition("/")[0]


def _is_literal(patterns: list[str]) -> bool:
    return bool(patterns) and not any(claims.ANY in pattern for pattern in patterns)
