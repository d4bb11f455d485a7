"""Modules of edges and routes as they are stored (SPEC 2.9). Secrets stay sealed in them; opening one is a call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, Self

from chalicelib.model import details
from chalicelib.model.records import References, Stored
from chalicelib.storage import vault

TlsEnd = Literal["edge", "upstream"]  # where TLS ends on an HTTPS edge
EDGE: Final = "edge"  # on one that does not say
UPSTREAM: Final = "upstream"


@dataclass(frozen=True, kw_only=True)
class StoredModule(Stored):
    """The base of all modules. Each names in `AUDITED` what its audit events show of it."""

    enabled: bool = True

    AUDITED: ClassVar[tuple[str, ...]] = ("enabled",)

    @classmethod
    def requested(cls, values: Mapping[str, Any], context: Mapping[str, str], before: Self | None) -> Self:
        """Return the module that the fields of a request describe, its secrets sealed with the context.

        What is as in the module before stays as it is there. Raises aws.Unavailable where it holds a secret.
        """
        return cls.of(values)


@dataclass(frozen=True, kw_only=True)
class StoredProvider(Stored):
    """An identity provider, and which of its users may pass; `teams` and `organizations` are GitHub's alone."""

    client_id: str = ""
    client_secret: bytes = field(default=b"", repr=False)
    scopes: list[str] = field(default_factory=list)
    email_addresses: list[str] = field(default_factory=list)
    email_domains: list[str] = field(default_factory=list)
    teams: list[str] | None = None
    organizations: list[str] | None = None

    AUDITED = ("client_id", "client_secret", "scopes", "email_addresses", "email_domains", "teams", "organizations")

    def to_record(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}

    def open_secret(self, context: Mapping[str, str]) -> str:
        """Return the client secret, "" where there is none. Raises aws.Unavailable."""
        return vault.unseal(self.client_secret, context, bytes.decode) if self.client_secret else ""


@dataclass(frozen=True, kw_only=True)
class OAuthModule(StoredModule):
    """The OAuth module of a route. `provider` has all eight providers by name, one of them set. Times in seconds.

    The client secret of an OAuth app is sealed for the route that holds it alone.
    """

    provider: Mapping[str, StoredProvider | None]
    options_passthrough: bool = False
    cookie_prefix: str = "service."
    inactivity_timeout: int = 0
    maximum_duration: int = 0
    auth_check_interval: int = 0

    AUDITED = (
        *("enabled", "provider", "options_passthrough", "cookie_prefix"),
        *("inactivity_timeout", "maximum_duration", "auth_check_interval"),
    )

    @classmethod
    def requested(cls, values: Mapping[str, Any], context: Mapping[str, str], before: Self | None) -> Self:
        known = [found.client_secret for found in before.provider.values() if found] if before else []
        providers = {
            name: asked and {**asked, "client_secret": _seal(asked["client_secret"], context, known)}
            for name, asked in values["provider"].items()
        }
        return cls.of({**values, "provider": providers})

    def to_record(self) -> dict[str, Any]:
        return {**vars(self), "provider": {name: it and it.to_record() for name, it in self.provider.items()}}


def _seal(secret: str, context: Mapping[str, str], known: Sequence[bytes]) -> bytes:
    """Return the secret sealed, as it is already where it has not changed: sealed anew it would differ."""
    same = (kept for kept in known if secret and kept and vault.unseal(kept, context, bytes.decode) == secret)
    if found := next(same, b""):
        return found
    return vault.seal(secret.encode(), context, read=bytes.decode) if secret else b""


@dataclass(frozen=True, kw_only=True)
class UserAgentModule(StoredModule):
    """RE2 patterns of User-Agents to let pass, and to refuse."""

    allow: list[str] = field(default_factory=list)
    deny: list[str] = field(default_factory=list)

    AUDITED = ("enabled", "allow", "deny")


@dataclass(frozen=True, kw_only=True)
class BackendModule(StoredModule):
    """The id of the backend that answers the traffic, None where none is attached."""

    backend_id: str | None = None

    AUDITED = ("enabled", "backend_id")

    def references(self) -> References:
        return {"backend_id": [self.backend_id] if self.backend_id else []}


@dataclass(frozen=True, kw_only=True)
class TrafficPolicyModule(StoredModule):
    """A JSON document of rules, kept as it was sent."""

    value: str

    AUDITED = ("enabled", "value")

    def audited_fields(self) -> dict[str, Any]:
        """Return the document by its digest: its rules may hold what a secret is compared with."""
        return {**super().audited_fields(), "value": details.digest(self.value)}


@dataclass(frozen=True, kw_only=True)
class MutualTlsModule(StoredModule):
    """The ids of certificate authorities, in order: a client needs a certificate of one of them."""

    certificate_authority_ids: list[str]

    AUDITED = ("enabled", "certificate_authority_ids")

    def references(self) -> References:
        return {"certificate_authority_ids": self.certificate_authority_ids}


@dataclass(frozen=True, kw_only=True)
class TlsTerminationModule(StoredModule):
    """The oldest version of TLS that an edge takes, None for a safe default. Where TLS ends is the edge's own."""

    min_version: str | None = None

    AUDITED = ("enabled", "min_version")
