"""Policies of SSH authorities: bounds and defaults of the certificates that they sign. The checks do no I/O."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Self

from chalicelib import crypto
from chalicelib.model.base.records import Stored, StoredModule
from chalicelib.model.ssh import acl
from chalicelib.storage.records import decoding
from chalicelib.storage.records.items import Item

if TYPE_CHECKING:
    from chalicelib.crypto.ssh_certificates import Certificate

Subject = Literal["user", "host"]  # whom an SSH certificate authenticates

NAME = "policy"  # the name of the policy's module in the record of an authority
CALLER = "{user}"  # the placeholder in a pattern for the caller's name
_MAX_LISTED = 10
_FORWARDING = "permit-port-forwarding"
DEFAULT_EXTENSIONS = {"permit-pty": "", "permit-user-rc": ""}


@dataclass(frozen=True, kw_only=True)
class PolicyBounds(Stored):
    """The bounds of certificates, None for a bound that is not set. Times are in seconds.

    In `allowed_principals`, `*` matches any text. If a request names no start, the certificate is valid from `backdate`
    seconds before its creation. `signers` are the ids of users and bots that may request certificates. Admins always
    may. `allowed_bind` are ACL rules, which must permit all rules in the certificate's extension bind@tunnel-edge.
    """

    backdate: int = 0
    default_lifetime: int | None = None
    max_lifetime: int | None = None
    allowed_principals: list[str] | None = None
    require_principals: bool = False
    allowed_extensions: list[str] | None = None
    default_extensions: dict[str, str] | None = None
    critical_options: dict[str, str] | None = None
    allowed_key_types: list[str] | None = None
    min_rsa_bits: int | None = None
    signers: list[str] | None = None
    require_bind: bool = False
    allowed_bind: list[str] | None = None

    AUDITED = (
        *("backdate", "default_lifetime", "max_lifetime", "allowed_principals", "require_principals"),
        *("allowed_extensions", "default_extensions", "critical_options", "allowed_key_types", "min_rsa_bits"),
        *("signers", "require_bind", "allowed_bind"),
    )

    @property
    def names_the_caller(self) -> bool:
        """Return whether a pattern or rule contains `{user}`, so that the check requires the caller's name."""
        return any(CALLER in pattern for pattern in [*(self.allowed_principals or []), *(self.allowed_bind or [])])


@dataclass(frozen=True, kw_only=True)
class PolicyModule(StoredModule):
    """The bounds of user and host certificates, None if they are not set."""

    user: PolicyBounds | None = None
    host: PolicyBounds | None = None

    AUDITED = ("enabled", "user", "host")

    @classmethod
    def from_request(cls, values: Mapping[str, Any], context: Mapping[str, str], before: Self | None) -> Self:
        return cls.of({**values, **{subject: _convert_bounds(values[subject]) for subject in ("user", "host")}})

    def to_record(self) -> dict[str, Any]:
        bounds = {subject: bound and bound.to_record() for subject, bound in (("user", self.user), ("host", self.host))}
        return {"enabled": self.enabled, **bounds}


def _convert_bounds(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Convert the bounds in a request to their stored form. Critical options get their OpenSSH names."""
    if values is None:
        return None
    named = values.get("critical_options") or {}
    options = {name.replace("_", "-"): value for name, value in named.items() if value}
    return {**values, "critical_options": options or None}


def read_bounds(authority: Item, subject: Subject) -> PolicyBounds:
    """Return the bounds of an authority. They are empty if its policy is not set or disabled.

    Raises MalformedRecord.
    """
    policy = decoding.decode(PolicyModule, authority.modules.get(NAME, {}))
    bounds = policy.user if subject == "user" else policy.host
    return bounds if bounds and policy.enabled else PolicyBounds()


def default_lifetime(bounds: PolicyBounds, default: timedelta) -> timedelta:
    """Return the lifetime of a certificate for a request that names no lifetime.

    It is the default of the policy, or else `default`, but at most the maximum of the policy.
    """
    lifetime = default if bounds.default_lifetime is None else timedelta(seconds=bounds.default_lifetime)
    return lifetime if bounds.max_lifetime is None else min(lifetime, timedelta(seconds=bounds.max_lifetime))


def choose_extensions(bounds: PolicyBounds, requested: Mapping[str, str]) -> dict[str, str]:
    """Return the requested extensions of a certificate. If none are requested, return the defaults of the policy."""
    if requested:
        return dict(requested)
    if bounds.default_extensions is not None:
        return bounds.default_extensions
    allowed = DEFAULT_EXTENSIONS if bounds.allowed_extensions is None else bounds.allowed_extensions
    return {name: value for name, value in DEFAULT_EXTENSIONS.items() if name in allowed}


def merge_critical_options(bounds: PolicyBounds, requested: Mapping[str, str]) -> dict[str, str]:
    """Merge the critical options of the request and the policy. A requested value replaces the policy's value."""
    return {**(bounds.critical_options or {}), **requested}


def find_violations(
    bounds: PolicyBounds, certificate: "Certificate", caller: str | None, now: datetime
) -> dict[str, str]:
    """Return the validation errors of a certificate by request field.

    `caller` is the name of the caller, or None if unknown: then no pattern with `{user}` matches.
    """
    return {
        **dict(_check_lifetime(bounds, certificate, now)),
        **dict(_check_principals(bounds, certificate, caller)),
        **(
            dict([*_check_options(bounds, certificate), *_check_bind(bounds, certificate, caller)])
            if isinstance(certificate, crypto.ssh_certificates.UserCertificate)
            else {}
        ),
        **dict(_check_key(bounds, certificate)),
    }


def _check_lifetime(bounds: PolicyBounds, certificate: "Certificate", now: datetime) -> Iterator[tuple[str, str]]:
    """Yield an error if a certificate is valid for longer than `max_lifetime`. Time before `now` does not count."""
    if bounds.max_lifetime is None:
        return
    if certificate.valid_until - max(certificate.valid_after, now) > timedelta(seconds=bounds.max_lifetime):
        limit = f"{bounds.max_lifetime} seconds after valid_after, or after now if that is later"
        yield "valid_until", _policy_rule(f"must be at most {limit}")


def _check_key(bounds: PolicyBounds, certificate: "Certificate") -> Iterator[tuple[str, str]]:
    key_type = crypto.keys.key_type(certificate.public_key)
    if bounds.allowed_key_types is not None and key_type not in bounds.allowed_key_types:
        yield "public_key", _policy_rule(f"must be a key of type {' or '.join(bounds.allowed_key_types)}")
    elif key_type == "rsa" and crypto.keys.rsa_bits(certificate.public_key) < (bounds.min_rsa_bits or 0):
        yield "public_key", _policy_rule(f"must be an RSA key of at least {bounds.min_rsa_bits} bits")


def _check_principals(
    bounds: PolicyBounds, certificate: "Certificate", caller: str | None
) -> Iterator[tuple[str, str]]:
    patterns = bounds.allowed_principals
    if not certificate.principals and (bounds.require_principals or patterns is not None):
        yield "principals", _policy_rule("must contain at least one name")
    if patterns is None:
        return
    rule = _policy_rule(f"must match {_join_first(patterns, ' or ')}")
    split = [_split_pattern(pattern, caller or "") for pattern in patterns if caller or CALLER not in pattern]
    for index, principal in enumerate(certificate.principals):
        if "," in principal:  # sshd before 10.3 can read this as several principals
            yield f"principals.{index}", _policy_rule("must not contain a comma")
        elif not any(_matches(pieces, principal) for pieces in split):
            yield f"principals.{index}", rule


def _check_options(bounds: PolicyBounds, certificate: Any) -> Iterator[tuple[str, str]]:
    allowed = bounds.allowed_extensions
    for name in certificate.extensions:
        # the extension with ACL rules is always permitted, because it only restricts the certificate
        if allowed is not None and name not in allowed and name != acl.EXTENSION:
            yield (
                f"extensions.{name}",
                _policy_rule(f"must be one of {_join_first(allowed, ', ')}" if allowed else "must be absent"),
            )
    for name, value in (bounds.critical_options or {}).items():
        if certificate.critical_options.get(name) != value:
            yield f"critical_options.{name}", _policy_rule(f"must be absent or {value!r}")


def _check_bind(bounds: PolicyBounds, certificate: Any, caller: str | None) -> Iterator[tuple[str, str]]:
    """Yield an error if bind rules are missing, or if the policy does not permit them."""
    field, value = f"extensions.{acl.EXTENSION}", certificate.extensions.get(acl.EXTENSION)
    if value is None:
        is_required = bounds.require_bind or bounds.allowed_bind is not None
        if is_required and _FORWARDING in certificate.extensions:
            yield field, _policy_rule(f"must be set if the certificate has the extension {_FORWARDING}")
    elif bounds.allowed_bind is not None:
        allowed = [rule for rule in (_insert_caller(template, caller) for template in bounds.allowed_bind) if rule]
        if not all(any(acl.is_within(rule, bound) for bound in allowed) for rule in acl.split(value)):
            rules_text = _join_first(bounds.allowed_bind, " or ")
            yield field, _policy_rule(f"must have only rules that are equal to or narrower than {rules_text}")


def _insert_caller(rule: str, caller: str | None) -> str:
    """Return a bind rule with the caller's name in place of `{user}`. Return "" if the result is not a rule."""
    if CALLER not in rule:
        return rule
    if not caller or "*" in caller or "," in caller:
        return ""
    try:
        return acl.check(rule.replace(CALLER, caller))
    except ValueError:
        return ""


def _split_pattern(pattern: str, caller: str) -> list[str]:
    """Split a pattern at its stars, then insert the caller's name for `{user}`. A star in the name is no wildcard."""
    return [piece.replace(CALLER, caller) for piece in pattern.split("*")]


def _matches(pieces: list[str], text: str) -> bool:
    """Return whether a text matches a pattern, given the pieces of the pattern between its stars.

    Each piece is searched once, from the left, so the time is linear in the length of the text.
    """
    first, *later_pieces = pieces
    if not later_pieces:
        return text == first
    position = len(first) if text.startswith(first) else len(text) + 1
    for piece in later_pieces[:-1]:
        index = text.find(piece, position)
        position = index + len(piece) if index >= 0 else len(text) + 1
    return text.endswith(later_pieces[-1]) and position + len(later_pieces[-1]) <= len(text)


def _join_first(names: list[str], between: str) -> str:
    """Join the first ten of some names for an error message. An ellipsis replaces the others.

    The text must be short, because one response can repeat it for a hundred fields.
    """
    return between.join([*names[:_MAX_LISTED], *(["…"] if len(names) > _MAX_LISTED else [])])


def _policy_rule(rule: str) -> str:
    return f"{rule}, as the policy of the authority requires"
