"""The policy of SSH authorities: limits of what they sign. Only for admins with a key of scope `*`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

from chalicelib import crypto
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call
from chalicelib.http.errors import Forbidden
from chalicelib.http.module import Enabled, Module
from chalicelib.model.accounts import api_keys
from chalicelib.model.base import kinds
from chalicelib.model.ssh import policies
from chalicelib.schema.fields import Name
from chalicelib.schema.rules import After, WithData, between, entries, if_null
from chalicelib.schema.shapes import Shape
from chalicelib.schema.ssh_fields import CriticalOptions, ExtensionName, Extensions
from chalicelib.storage.records.items import Item

_SECONDS = between(1, 2**32 - 1)
_MAX_STARS = 8  # in a pattern: each of 256 patterns is matched with each of 256 principals


def _distinct(values: list[str]) -> list[str]:
    if len(set(values)) < len(values):
        raise ValueError("must not contain a value twice")
    return values


def _pattern(value: str) -> str:
    if "," in value:
        raise ValueError("must not contain a comma")
    if value.count("*") > _MAX_STARS:
        raise ValueError(f"must contain at most {_MAX_STARS} wildcards ('*')")
    return value


def _not_below_the_default(value: int | None, above: Mapping[str, Any]) -> int | None:
    if value is not None and (above.get("default_lifetime") or 0) > value:
        raise ValueError("must be at least default_lifetime")
    return value


def _among_the_allowed(value: dict[str, str] | None, above: Mapping[str, Any]) -> dict[str, str] | None:
    allowed = above.get("allowed_extensions")
    if value and allowed is not None and (others := sorted(value.keys() - {*allowed})):
        raise ValueError(f"must be in allowed_extensions, which lacks {', '.join(others)}")
    return value


Pattern = Annotated[Name, After(_pattern, {"not": {"pattern": rf",|(?:\*[^*]*){{{_MAX_STARS + 1}}}"}})]
_DISTINCT = After(_distinct, {"uniqueItems": True})


class HostBounds(Shape):
    """Limits of host certificates. Null is no limit."""

    backdate: Annotated[Annotated[int, between(0, 3600)], if_null(0)] = 0
    """Seconds that a certificate without a requested start begins before its creation, for servers with slow clocks."""

    default_lifetime: Annotated[int, _SECONDS] | None = None
    """Lifetime in seconds of a certificate without a requested end; at most max_lifetime."""

    max_lifetime: Annotated[Annotated[int, _SECONDS] | None, WithData(_not_below_the_default)] = None
    """Maximum lifetime in seconds, from `valid_after` or from now, if that is later."""

    allowed_principals: Annotated[list[Pattern], entries(1, 256), _DISTINCT] | None = None
    """Patterns of names. Each principal must match one of them, and certificates without principals are refused.

    `*` matches any text without a comma, at most eight times in a pattern. `{user}` matches exactly the caller's name.
    """

    require_principals: Annotated[bool, if_null(False)] = False
    """True: certificates without principals are refused."""

    allowed_key_types: Annotated[list[crypto.keys.KeyType], entries(1, 3), _DISTINCT] | None = None
    """Types of keys that may be certified."""

    min_rsa_bits: Annotated[int, between(2048, 16384)] | None = None
    """Minimum size in bits of RSA keys that may be certified."""


class UserBounds(HostBounds):
    """Limits of user certificates. Null is no limit."""

    allowed_extensions: Annotated[list[ExtensionName], entries(0, 64), _DISTINCT] | None = None
    """Extensions that a certificate may have; `[]` allows none."""

    default_extensions: Annotated[Extensions | None, WithData(_among_the_allowed)] = None
    """Extensions of a certificate without requested ones. They must be among the allowed ones."""

    critical_options: CriticalOptions | None = None
    """Critical options of every certificate. A request may repeat them, but not with another value."""


class Policy(Enabled):
    """Limits what an SSH authority signs. Only admins with a key of scope `*` can see and change it."""

    user: UserBounds | None = None
    """Limits of user certificates; null is no limit."""

    host: HostBounds | None = None
    """Limits of host certificates; null is no limit."""


class ShownUserBounds(UserBounds):
    """Limits of user certificates. Null is no limit."""

    critical_options: dict[str, str] | None = None  # type: ignore[assignment]  # only those that are set
    """Critical options of every certificate. A request may repeat them, but not with another value."""


class ShownPolicy(Enabled):
    """Limits what an SSH authority signs. Only admins with a key of scope `*` can see and change it."""

    user: ShownUserBounds | None = None
    """Limits of user certificates; null is no limit."""

    host: HostBounds | None = None
    """Limits of host certificates; null is no limit."""


def _permit(caller: Caller) -> None:
    if not caller.admin:
        raise Forbidden("Only an admin may see and change the policy of an authority.")
    if not caller.limits.covers(api_keys.ALL):
        raise Forbidden(f"This API key lacks the scope {api_keys.ALL}.")


def _response(policy: policies.PolicyModule, _holder: Item, _call: Call) -> dict[str, Any]:
    shown = asdict(policy)
    if shown["host"]:
        shown["host"] = {name: value for name, value in shown["host"].items() if name in HostBounds.__annotations__}
    return shown


MODULES = (
    Module(
        path=f"{kinds.SSH_CERTIFICATE_AUTHORITIES.one}/{policies.NAME}",
        shape=Policy,
        stored=policies.PolicyModule,
        shows=ShownPolicy,
        to_response=_response,
        permits=_permit,
    ),
)
