"""The policy of SSH authorities: limits of the certificates that they sign.

Only admins with an API key of scope `*` may see and change policies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

from chalicelib import crypto
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call
from chalicelib.http.module import Enabled, Module
from chalicelib.model.accounts import scopes
from chalicelib.model.base import kinds
from chalicelib.model.ssh import acl, policies
from chalicelib.schema import ssh_fields
from chalicelib.schema.fields import OWNER, Name
from chalicelib.schema.rules import After, WithData, between, entries, if_null, max_bytes
from chalicelib.schema.shapes import Shape
from chalicelib.schema.ssh_fields import CriticalOptions, ExtensionName, Extensions
from chalicelib.storage.records import item_keys
from chalicelib.storage.records.items import Item

_SECONDS = between(1, 2**32 - 1)
_RECENT = ("require_bind", "allowed_bind")  # fields that versions before record format 4 ignore
# the most `*` in a pattern; with more, signing could take too long, because it can compare 256 patterns with 256 names
_MAX_STARS = 8


def _reject_duplicates(values: list[str]) -> list[str]:
    if len(set(values)) < len(values):
        raise ValueError("must not contain a value twice")
    return values


def _check_pattern(value: str) -> str:
    if "," in value:
        raise ValueError("must not contain a comma")
    if value.count("*") > _MAX_STARS:
        raise ValueError(f"must contain at most {_MAX_STARS} wildcards ('*')")
    return value


def _require_default_below(value: int | None, above: Mapping[str, Any]) -> int | None:
    if value is not None and (above.get("default_lifetime") or 0) > value:
        raise ValueError("must be at least default_lifetime")
    return value


def _require_allowed(value: dict[str, str] | None, above: Mapping[str, Any]) -> dict[str, str] | None:
    allowed = above.get("allowed_extensions")
    if value and allowed is not None and (extra_names := sorted(value.keys() - {*allowed, acl.EXTENSION})):
        raise ValueError(f"must be in allowed_extensions, which lacks {', '.join(extra_names)}")
    return value


def _check_bind_rule(value: str) -> str:
    if "," in value:
        raise ValueError("must not contain a comma")
    acl.check(value.replace(policies.CALLER, "user"))
    return value


_BIND_RULE = {"pattern": "^(?:\\*|bind:[^,]+)$", "format": "bind-rule"}
BindRule = Annotated[str, After(_check_bind_rule, _BIND_RULE), max_bytes(1024)]
Pattern = Annotated[Name, After(_check_pattern, {"not": {"pattern": rf",|(?:\*[^*]*){{{_MAX_STARS + 1}}}"}})]
_DISTINCT = After(_reject_duplicates, {"uniqueItems": True})


class HostBounds(Shape):
    """Limits of host certificates. Null means no limit."""

    backdate: Annotated[Annotated[int, between(0, 3600)], if_null(0)] = 0
    """Seconds before its creation at which a certificate without a requested start begins, for servers with slow
    clocks."""

    default_lifetime: Annotated[int, _SECONDS] | None = None
    """Lifetime in seconds of a certificate without a requested end; at most max_lifetime."""

    max_lifetime: Annotated[Annotated[int, _SECONDS] | None, WithData(_require_default_below)] = None
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

    signers: Annotated[list[Annotated[str, OWNER]], entries(0, 100), _DISTINCT] | None = None
    """The users and bots that may sign besides admins, by id; null is everyone, `[]` only admins."""


class UserBounds(HostBounds):
    """Limits of user certificates. Null means no limit."""

    allowed_extensions: Annotated[list[ExtensionName], entries(0, 64), _DISTINCT] | None = None
    """Extensions that a certificate may have; `[]` allows none."""

    default_extensions: Annotated[Extensions | None, WithData(_require_allowed)] = None
    """Extensions of a certificate if its request names none. They must be among the allowed extensions."""

    critical_options: CriticalOptions | None = None
    """Critical options of every certificate. A request may repeat them, but not with another value."""

    require_bind: Annotated[bool, if_null(False)] = False
    """True: a certificate with `permit-port-forwarding` must have the extension `bind@tunnel-edge`."""

    allowed_bind: Annotated[list[BindRule], entries(1, 64), _DISTINCT] | None = None
    """ACL rules. Each rule in `bind@tunnel-edge` must be equal to or narrower than one of them.

    They imply `require_bind`. `{user}` is the caller's name. `*` is covered only by `*`.
    """


class Policy(Enabled):
    """Limits the certificates that an SSH authority signs.

    Only admins with a key of scope `*` can see and change it.
    """

    user: UserBounds | None = None
    """Limits of user certificates; null is no limit."""

    host: HostBounds | None = None
    """Limits of host certificates; null is no limit."""


class ShownUserBounds(UserBounds):
    """Limits of user certificates. Null means no limit."""

    critical_options: dict[str, str] | None = None  # type: ignore[assignment]  # only those that are set
    """Critical options of every certificate. A request may repeat them, but not with another value."""


class ShownPolicy(Enabled):
    """Limits the certificates that an SSH authority signs.

    Only admins with a key of scope `*` can see and change it.
    """

    user: ShownUserBounds | None = None
    """Limits of user certificates; null is no limit."""

    host: HostBounds | None = None
    """Limits of host certificates; null is no limit."""


def _permit(caller: Caller) -> None:
    caller.require_admin("see and change the policy of an authority")
    caller.require(scopes.ALL)


def _build_response(policy: policies.PolicyModule, _authority: Item, _call: Call) -> dict[str, Any]:
    response = asdict(policy)
    if response["host"]:
        response["host"] = {
            name: value for name, value in response["host"].items() if name in HostBounds.__annotations__
        }
    return response


def _find_conflicts(request: Policy | None, _authority: Item) -> dict[str, str]:
    """Return the validation errors of a policy, by field.

    This function checks the rules in the default extensions. Before record format 4, it also rejects fields that
    running processes of earlier versions would ignore.
    """
    if request is None:
        return {}
    errors = _check_default_rules(request.user) if request.user else {}
    if item_keys.is_latest_format():
        return errors
    sides = (("user", request.user), ("host", request.host))
    later = {f"{side}.{name}" for side, bounds in sides if bounds for name in _RECENT if getattr(bounds, name, None)}
    signers = {f"{side}.signers" for side, bounds in sides if bounds and bounds.signers is not None}
    return errors | dict.fromkeys(sorted(later | signers), "must be null until the operator sets RECORD_FORMAT to 4")


def _check_default_rules(bounds: UserBounds) -> dict[str, str]:
    """Return the validation error of the bind rules in the default extensions."""
    errors = ssh_fields.check_bind(bounds.default_extensions or {})
    return {f"user.default_{field}": rule for field, rule in errors.items()}


MODULES = (
    Module(
        path=f"{kinds.SSH_CERTIFICATE_AUTHORITIES.item_path}/{policies.NAME}",
        shape=Policy,
        stored=policies.PolicyModule,
        shows=ShownPolicy,
        to_response=_build_response,
        conflicts=_find_conflicts,
        permits=_permit,
    ),
)
