"""The policy of SSH authorities: limits of what they sign. Only admins with an unlimited key can set it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

from chalicelib import crypto
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call
from chalicelib.http.errors import Forbidden
from chalicelib.http.module import Enabled, Module
from chalicelib.model import api_keys, kinds
from chalicelib.model.ssh import policies
from chalicelib.schema.fields import Name
from chalicelib.schema.rules import After, WithData, between, entries, if_null
from chalicelib.schema.shapes import Shape
from chalicelib.schema.ssh_fields import CriticalOptions, ExtensionName, Extensions
from chalicelib.storage.items import Item

_SECONDS = between(1, 2**32 - 1)
_MAX_STARS = 8  # of a pattern: each of 256 is tried with each of 256 principals


def _distinct(values: list[str]) -> list[str]:
    if len(set(values)) < len(values):
        raise ValueError("must not name one twice")
    return values


def _pattern(value: str) -> str:
    if "," in value:
        raise ValueError("must not hold a comma")
    if value.count("*") > _MAX_STARS:
        raise ValueError(f"must have at most {_MAX_STARS} stars")
    return value


def _not_below_the_default(value: int | None, above: Mapping[str, Any]) -> int | None:
    if value is not None and (above.get("default_lifetime") or 0) > value:
        raise ValueError("must be at least default_lifetime")
    return value


def _among_the_allowed(value: dict[str, str] | None, above: Mapping[str, Any]) -> dict[str, str] | None:
    allowed = above.get("allowed_extensions")
    if value and allowed is not None and (others := sorted(value.keys() - {*allowed})):
        raise ValueError(f"must be among allowed_extensions; {', '.join(others)} is not")
    return value


Pattern = Annotated[Name, After(_pattern, {"not": {"pattern": rf",|(?:\*[^*]*){{{_MAX_STARS + 1}}}"}})]
_DISTINCT = After(_distinct, {"uniqueItems": True})


class HostBounds(Shape):
    """Bounds of host certificates; null where there is none."""

    backdate: Annotated[Annotated[int, between(0, 3600)], if_null(0)] = 0
    """Seconds before its creation at which a certificate that names no start begins: for servers with a slow clock."""

    default_lifetime: Annotated[int, _SECONDS] | None = None
    """Seconds that a certificate lives that does not say; at most max_lifetime."""

    max_lifetime: Annotated[Annotated[int, _SECONDS] | None, WithData(_not_below_the_default)] = None
    """The most seconds that a certificate lives, from `valid_after` on, or from now on where that is later."""

    allowed_principals: Annotated[list[Pattern], entries(1, 256), _DISTINCT] | None = None
    """Patterns of names, of which each principal matches one; certificates without principals are refused then.

    `*` is any text without a comma, at most eight in a pattern; `{user}` is the caller's name, taken literally.
    """

    require_principals: Annotated[bool, if_null(False)] = False
    """True refuses certificates without principals."""

    allowed_key_types: Annotated[list[crypto.keys.KeyType], entries(1, 3), _DISTINCT] | None = None
    """The types of keys that are certified."""

    min_rsa_bits: Annotated[int, between(2048, 16384)] | None = None
    """The fewest bits of RSA keys that are certified."""


class UserBounds(HostBounds):
    """Bounds of user certificates; null where there is none."""

    allowed_extensions: Annotated[list[ExtensionName], entries(0, 64), _DISTINCT] | None = None
    """The extensions that a certificate may have; `[]`: none."""

    default_extensions: Annotated[Extensions | None, WithData(_among_the_allowed)] = None
    """The extensions of a certificate that names none, among the allowed ones."""

    critical_options: CriticalOptions | None = None
    """Critical options of every certificate; a request may repeat them, and name no other value."""


class Policy(Enabled):
    """Bounds what an SSH authority signs. Only admins whose key has the scope `*` see and change it."""

    user: UserBounds | None = None
    """Bounds of user certificates; null: none."""

    host: HostBounds | None = None
    """Bounds of host certificates; null: none."""


class ShownUserBounds(UserBounds):
    """Bounds of user certificates; null where there is none."""

    critical_options: dict[str, str] | None = None  # type: ignore[assignment]  # only those that are set
    """Critical options of every certificate; a request may repeat them, and name no other value."""


class ShownPolicy(Enabled):
    """Bounds what an SSH authority signs. Only admins whose key has the scope `*` see and change it."""

    user: ShownUserBounds | None = None
    """Bounds of user certificates; null: none."""

    host: HostBounds | None = None
    """Bounds of host certificates; null: none."""


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
