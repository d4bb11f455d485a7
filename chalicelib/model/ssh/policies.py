"""Policies of SSH authorities: bounds of what they sign for users and for hosts, and defaults within them.

The checks are pure: a certificate that is about to be signed, and the bounds that it must keep.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Self

from chalicelib import crypto
from chalicelib.model.modules import Module
from chalicelib.model.records import Stored
from chalicelib.storage.items import Item

if TYPE_CHECKING:
    from chalicelib.crypto.ssh_certificates import Certificate

Holders = Literal["user", "host"]  # for whom an authority signs

NAME = "policy"  # of the module in its authority's record
CALLER = "{user}"  # in a pattern: the caller's name
_MAX_LISTED = 10
DEFAULT_EXTENSIONS = {"permit-pty": "", "permit-user-rc": ""}


@dataclass(frozen=True, kw_only=True)
class Bounds(Stored):
    """The bounds of certificates, None where there is none. Times in seconds; `*` in patterns is any text.

    `backdate` is how long before its creation a certificate begins to be valid that names no start.
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

    TOLD = (
        *("backdate", "default_lifetime", "max_lifetime", "allowed_principals", "require_principals"),
        *("allowed_extensions", "default_extensions", "critical_options", "allowed_key_types", "min_rsa_bits"),
    )

    @property
    def names_the_caller(self) -> bool:
        """Tell whether the check needs the caller's name, because a pattern holds `{user}`."""
        return any(CALLER in pattern for pattern in self.allowed_principals or [])


@dataclass(frozen=True, kw_only=True)
class Policy(Module):
    """The bounds of certificates of users and of hosts, None where there are none."""

    user: Bounds | None = None
    host: Bounds | None = None

    TOLD = ("enabled", "user", "host")

    @classmethod
    def requested(cls, values: Mapping[str, Any], context: Mapping[str, str], before: Self | None) -> Self:
        return cls.of({**values, **{holders: _requested(values[holders]) for holders in ("user", "host")}})

    def to_record(self) -> dict[str, Any]:
        bounds = {holders: found and found.to_record() for holders, found in (("user", self.user), ("host", self.host))}
        return {"enabled": self.enabled, **bounds}


def _requested(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the bounds of a request: of its critical options those that are set, by the names that OpenSSH has."""
    if values is None:
        return None
    named = values.get("critical_options") or {}
    options = {name.replace("_", "-"): value for name, value in named.items() if value}
    return {**values, "critical_options": options or None}


def of(authority: Item, holders: Holders) -> Bounds:
    """Return the bounds of what an authority signs, none where its policy is not set or disabled.

    Raises MalformedRecord.
    """
    policy = Policy.of(authority.modules.get(NAME, {}))
    bounds = policy.user if holders == "user" else policy.host
    return bounds if bounds and policy.enabled else Bounds()


def lifetime(bounds: Bounds, default: timedelta) -> timedelta:
    """Return the lifetime of a certificate whose request names no end: the default, at most the policy's maximum."""
    own = default if bounds.default_lifetime is None else timedelta(seconds=bounds.default_lifetime)
    return own if bounds.max_lifetime is None else min(own, timedelta(seconds=bounds.max_lifetime))


def extensions(bounds: Bounds, asked: Mapping[str, str]) -> dict[str, str]:
    """Return the extensions of a certificate: those that were asked for, else the default ones."""
    if asked:
        return dict(asked)
    if bounds.default_extensions is not None:
        return bounds.default_extensions
    allowed = DEFAULT_EXTENSIONS if bounds.allowed_extensions is None else bounds.allowed_extensions
    return {name: value for name, value in DEFAULT_EXTENSIONS.items() if name in allowed}


def critical_options(bounds: Bounds, asked: Mapping[str, str]) -> dict[str, str]:
    """Return the critical options of a certificate: those that were asked for, and the policy's."""
    return {**(bounds.critical_options or {}), **asked}


def violations(bounds: Bounds, certificate: "Certificate", caller: str | None, now: datetime) -> dict[str, str]:
    """Return the validation errors of a certificate beyond the bounds, by the dotted paths of the request's fields.

    `caller` is the caller's name, None where it is not known and nobody has it; `now` the time of the creation.
    """
    return {
        **dict(_of_lifetime(bounds, certificate, now)),
        **dict(_of_key(bounds, certificate)),
        **dict(_of_principals(bounds, certificate, caller)),
        **(
            dict(_of_options(bounds, certificate))
            if isinstance(certificate, crypto.ssh_certificates.UserCertificate)
            else {}
        ),
    }


def _of_lifetime(bounds: Bounds, certificate: "Certificate", now: datetime) -> Iterator[tuple[str, str]]:
    """Yield the error of a lifetime beyond the bound, counted from now where it has begun: the past lets nobody in."""
    if bounds.max_lifetime is None:
        return
    if certificate.valid_until - max(certificate.valid_after, now) > timedelta(seconds=bounds.max_lifetime):
        most = f"{bounds.max_lifetime} seconds after valid_after, or after now where that is later"
        yield "valid_until", _said(f"must be at most {most}")


def _of_key(bounds: Bounds, certificate: "Certificate") -> Iterator[tuple[str, str]]:
    key_type = crypto.keys.key_type(certificate.public_key)
    if bounds.allowed_key_types is not None and key_type not in bounds.allowed_key_types:
        yield "public_key", _said(f"must be a key of type {' or '.join(bounds.allowed_key_types)}")
    elif key_type == "rsa" and crypto.keys.rsa_bits(certificate.public_key) < (bounds.min_rsa_bits or 0):
        yield "public_key", _said(f"must be an RSA key of at least {bounds.min_rsa_bits} bits")


def _of_principals(bounds: Bounds, certificate: "Certificate", caller: str | None) -> Iterator[tuple[str, str]]:
    patterns = bounds.allowed_principals
    if not certificate.principals and (bounds.require_principals or patterns is not None):
        yield "principals", _said("must name at least one")
    if patterns is None:
        return
    rule = _said(f"must match {_listed(patterns, ' or ')}")
    known = [_pieces(pattern, caller or "") for pattern in patterns if caller or CALLER not in pattern]
    for place, principal in enumerate(certificate.principals):
        if "," in principal:  # sshd before 10.3 reads it as several where authorized_keys names principals
            yield f"principals.{place}", _said("must not contain a comma")
        elif not any(_matches(pieces, principal) for pieces in known):
            yield f"principals.{place}", rule


def _of_options(bounds: Bounds, certificate: Any) -> Iterator[tuple[str, str]]:
    allowed = bounds.allowed_extensions
    for name in certificate.extensions:
        if allowed is not None and name not in allowed:
            yield (
                f"extensions.{name}",
                _said(f"must be one of {_listed(allowed, ', ')}" if allowed else "must be absent"),
            )
    for name, value in (bounds.critical_options or {}).items():
        if certificate.critical_options.get(name) != value:
            yield f"critical_options.{name}", _said(f"must be absent or {value!r}")


def _pieces(pattern: str, caller: str) -> list[str]:
    """Return the texts between the stars of a pattern; a star in the caller's name stands for itself."""
    return [piece.replace(CALLER, caller) for piece in pattern.split("*")]


def _matches(pieces: list[str], text: str) -> bool:
    """Tell whether a text is the pieces with any text between them. Each is looked for once, from the left."""
    first, *others = pieces
    if not others:
        return text == first
    place = len(first) if text.startswith(first) else len(text) + 1
    for piece in others[:-1]:
        found = text.find(piece, place)
        place = found + len(piece) if found >= 0 else len(text) + 1
    return text.endswith(others[-1]) and place + len(others[-1]) <= len(text)


def _listed(names: list[str], between: str) -> str:
    """Return the first names as one text, since an error may repeat it for a hundred fields."""
    return between.join([*names[:_MAX_LISTED], *(["…"] if len(names) > _MAX_LISTED else [])])


def _said(rule: str) -> str:
    return f"{rule}, as the authority's policy says"
