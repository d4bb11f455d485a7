"""Modules of edges and routes in their stored form (SPEC 2.9): made from a record in one function, for API and edge."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, Self, TypeVar

from chalicelib.storage import vault

T = TypeVar("T")
R = TypeVar("R")

Place = Literal["edge", "upstream"]  # where TLS ends on an HTTPS edge
EDGE: Final = "edge"  # on one that does not say
UPSTREAM: Final = "upstream"


@dataclass(frozen=True, kw_only=True)
class Module:
    """The base of all modules. `account` and `holder` are the ids that its secrets are encrypted for."""

    enabled: bool = True

    @classmethod
    def from_request(cls, values: Mapping[str, Any]) -> Self:
        """Return the module that the fields of a request describe."""
        return cls(**values)

    @classmethod
    def from_record(cls, record: Mapping[str, Any], account: str, holder: str) -> Self:
        """Return the module that a record keeps. Raises aws.Unavailable where it holds a secret."""
        return cls(**record)

    def to_record(self, account: str, holder: str, before: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the module as its holder's record keeps it, given the record that it replaces, if there is one.

        The two are equal where nothing differs. Raises aws.Unavailable where it holds a secret.
        """
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class OAuthProvider:
    """An identity provider, and which of its users may pass; `teams` and `organizations` are GitHub's alone."""

    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scopes: list[str] = field(default_factory=list)
    email_addresses: list[str] = field(default_factory=list)
    email_domains: list[str] = field(default_factory=list)
    teams: list[str] | None = None
    organizations: list[str] | None = None

    def values(self) -> dict[str, Any]:
        """Return its fields by name, those of GitHub only where they are set."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class OAuth(Module):
    """The OAuth module of a route: `provider` has all eight providers by name, one of them set. Durations in seconds.

    The client secret of an OAuth app is sealed in the record, for the route that holds it alone.
    """

    provider: Mapping[str, OAuthProvider | None]
    options_passthrough: bool
    cookie_prefix: str
    inactivity_timeout: int
    maximum_duration: int
    auth_check_interval: int

    @classmethod
    def from_request(cls, values: Mapping[str, Any]) -> Self:
        providers = {name: provider and OAuthProvider(**provider) for name, provider in values["provider"].items()}
        return cls(**{**values, "provider": providers})

    @classmethod
    def from_record(cls, record: Mapping[str, Any], account: str, holder: str) -> Self:
        context = vault.context(account, holder)

        def read(kept: Mapping[str, Any]) -> OAuthProvider:
            sealed = kept["client_secret"]
            secret = vault.unseal(sealed, context, bytes.decode) if sealed else ""
            return OAuthProvider(**{**kept, "client_secret": secret})

        return cls(**{**record, "provider": _each(record["provider"], read)})

    def to_record(self, account: str, holder: str, before: Mapping[str, Any] | None) -> dict[str, Any]:
        context = vault.context(account, holder)
        kept = [provider["client_secret"] for provider in (before or {"provider": {}})["provider"].values() if provider]

        def sealed(secret: str) -> bytes:
            """Return the secret sealed, as it is already where it has not changed: sealing it again would differ."""
            same = (found for found in kept if found and vault.unseal(found, context, bytes.decode) == secret)
            return next(same, b"") or vault.seal(secret.encode(), context)

        def record(provider: OAuthProvider) -> dict[str, Any]:
            secret = provider.client_secret
            return {**provider.values(), "client_secret": sealed(secret) if secret else b""}

        return {**vars(self), "provider": _each(self.provider, record)}


@dataclass(frozen=True, kw_only=True)
class UserAgentFilter(Module):
    """RE2 patterns of User-Agents to let pass, and to refuse."""

    allow: list[str]
    deny: list[str]


@dataclass(frozen=True, kw_only=True)
class Backend(Module):
    """The id of the backend that answers the traffic, None where none is attached."""

    backend_id: str | None


@dataclass(frozen=True, kw_only=True)
class TrafficPolicy(Module):
    """A JSON document of rules, kept as it was sent."""

    value: str


@dataclass(frozen=True, kw_only=True)
class MutualTls(Module):
    """The ids of certificate authorities, in order: a client needs a certificate of one of them."""

    certificate_authority_ids: list[str]


@dataclass(frozen=True, kw_only=True)
class TlsTermination(Module):
    """The oldest version of TLS that an edge takes, None for a safe default."""

    min_version: str | None

    @classmethod
    def from_request(cls, values: Mapping[str, Any]) -> Self:
        return cls(enabled=values["enabled"], min_version=values["min_version"])  # where TLS ends is the edge's own


# By the last segment of their paths, which is their name in the record of the edge or route too.

TYPES: dict[str, type[Module]] = {
    "backend": Backend,
    "mutual_tls": MutualTls,
    "oauth": OAuth,
    "tls_termination": TlsTermination,
    "traffic_policy": TrafficPolicy,
    "user_agent_filter": UserAgentFilter,
}


def _each(providers: Mapping[str, T | None], change: Callable[[T], R]) -> dict[str, R | None]:
    return {name: change(provider) if provider is not None else None for name, provider in providers.items()}
