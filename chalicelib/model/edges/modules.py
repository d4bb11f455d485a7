"""The stored types of the modules of edges and routes (SPEC 2.9). Secrets are sealed."""

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self, get_args

from chalicelib.model.audit import details
from chalicelib.model.base.records import References, Stored, StoredModule
from chalicelib.storage import vault

WebhookProvider = Literal[
    "BITBUCKET", "GITHUB", "GITLAB", "INTERCOM", "PAGERDUTY", "SHOPIFY", "SLACK", "STRIPE", "SVIX", "ZENDESK"
]
TlsEnd = Literal["edge", "upstream"]  # where TLS ends on an HTTPS edge
EDGE: Final = "edge"  # the default
UPSTREAM: Final = "upstream"


@dataclass(frozen=True, kw_only=True)
class StoredProvider(Stored):
    """An identity provider and the users that it admits. Only GitHub has `teams` and `organizations`."""

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
        """Return the client secret, "" if there is none. Raises aws.Unavailable."""
        return vault.unseal(self.client_secret, context, bytes.decode) if self.client_secret else ""


@dataclass(frozen=True, kw_only=True)
class OAuthModule(StoredModule):
    """The OAuth module of a route. `provider` has all eight providers by name, one of them set. Times in seconds.

    The client secret is sealed for its route and cannot be opened for another one.
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

    @property
    def providers(self) -> list[tuple[str, StoredProvider]]:
        """Return the providers that are set, by name. A well-formed module has one."""
        return [(name, it) for name, it in sorted(self.provider.items()) if it]

    @classmethod
    def requested(cls, values: Mapping[str, Any], context: Mapping[str, str], before: Self | None) -> Self:
        sealed = [found.client_secret for found in before.provider.values() if found] if before else []
        providers = {
            name: requested and {**requested, "client_secret": _seal(requested["client_secret"], context, sealed)}
            for name, requested in values["provider"].items()
        }
        return cls.of({**values, "provider": providers})

    def to_record(self) -> dict[str, Any]:
        return {**vars(self), "provider": {name: it and it.to_record() for name, it in self.provider.items()}}


def _seal(secret: str, context: Mapping[str, str], sealed: Sequence[bytes]) -> bytes:
    """Return a sealed secret.

    An unchanged secret keeps its bytes: sealed again they would differ, and look like a change.
    """
    same = (it for it in sealed if secret and it and vault.unseal(it, context, bytes.decode) == secret)
    if found := next(same, b""):
        return found
    return vault.seal(secret.encode(), context, read=bytes.decode) if secret else b""


@dataclass(frozen=True, kw_only=True)
class WebhookModule(StoredModule):
    """The provider of a route's webhooks, by its name in capitals, and the secret that it signs with.

    The secret is sealed for this module of its route, and cannot be opened as another secret of the route.
    """

    provider: str
    secret: bytes = field(repr=False)

    AUDITED = ("enabled", "provider", "secret")

    @classmethod
    def requested(cls, values: Mapping[str, Any], context: Mapping[str, str], before: Self | None) -> Self:
        own = webhook_context(context)
        return cls.of({**values, "secret": _seal(values["secret"], own, [before.secret] if before else [])})

    @property
    def rule(self) -> "WebhookRule | None":
        """Return what the edge obeys, None for an unknown provider or without a secret.

        The same secret keeps its sealed bytes, so they stand for it.
        """
        known = next((it for it in get_args(WebhookProvider) if it == self.provider), None)
        digest = hashlib.sha256(f"{known}\n".encode() + self.secret).hexdigest()[:16]
        return WebhookRule(known, digest) if known and self.secret else None

    def open_secret(self, context: Mapping[str, str]) -> str:
        """Return the secret, "" if there is none. `context` is the route's. Raises aws.Unavailable."""
        return vault.unseal(self.secret, webhook_context(context), bytes.decode) if self.secret else ""


@dataclass(frozen=True)
class WebhookRule:
    """The provider of a route's webhooks, without its secret.

    `digest` changes with the provider and the secret.
    """

    provider: WebhookProvider
    digest: str


def webhook_context(context: Mapping[str, str]) -> dict[str, str]:
    """Return the encryption context of a webhook secret, from the context of its route."""
    return vault.context(context["account"], f"{context['resource']}/webhook_verification")


def svix_key(secret: str) -> bytes:
    """Return the key in a secret of Svix, b"" if the secret is malformed."""
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        return b""


@dataclass(frozen=True, kw_only=True)
class UserAgentModule(StoredModule):
    """RE2 patterns of the User-Agents to allow and to deny."""

    allow: list[str] = field(default_factory=list)
    deny: list[str] = field(default_factory=list)

    AUDITED = ("enabled", "allow", "deny")


@dataclass(frozen=True, kw_only=True)
class HeadersModule(StoredModule):
    """Headers to set, by name, and names of headers to remove first."""

    add: Mapping[str, str] = field(default_factory=dict)
    remove: list[str] = field(default_factory=list)

    AUDITED = ("enabled", "add", "remove")

    def audited_fields(self) -> dict[str, Any]:
        """Return digests of the values, which can be credentials of an upstream."""
        digests = {name: details.digest(value) for name, value in sorted(self.add.items())}
        return {**super().audited_fields(), "add": digests}


@dataclass(frozen=True, kw_only=True)
class CompressionModule(StoredModule):
    """Compression of responses. It has no options."""

    AUDITED = ("enabled",)


@dataclass(frozen=True, kw_only=True)
class CircuitBreakerModule(StoredModule):
    """When failing tunnels get no requests for a while. Times are in seconds."""

    tripped_duration: int = 10
    rolling_window: int = 10
    num_buckets: int = 10
    volume_threshold: int = 10
    error_percent: int = 50

    AUDITED = ("enabled", "tripped_duration", "rolling_window", "num_buckets", "volume_threshold", "error_percent")

    @classmethod
    def requested(cls, values: Mapping[str, Any], context: Mapping[str, str], before: Self | None) -> Self:
        named = {name: it for name, it in values.items() if name != "error_threshold_percentage"}
        return cls.of({**named, "error_percent": round(100 * values["error_threshold_percentage"])})


@dataclass(frozen=True, kw_only=True)
class BackendModule(StoredModule):
    """The id of the backend that answers traffic, or None."""

    backend_id: str | None = None

    AUDITED = ("enabled", "backend_id")

    def references(self) -> References:
        return {"backend_id": [self.backend_id] if self.backend_id else []}


@dataclass(frozen=True, kw_only=True)
class TrafficPolicyModule(StoredModule):
    """A JSON document of rules, stored as it was sent."""

    value: str

    AUDITED = ("enabled", "value")

    def audited_fields(self) -> dict[str, Any]:
        """Return a digest of the document, since its rules can contain secrets."""
        return {**super().audited_fields(), "value": details.digest(self.value)}


@dataclass(frozen=True, kw_only=True)
class MutualTlsModule(StoredModule):
    """The ids of certificate authorities. Clients must have a certificate that one of them issued."""

    certificate_authority_ids: list[str]

    AUDITED = ("enabled", "certificate_authority_ids")

    def references(self) -> References:
        return {"certificate_authority_ids": self.certificate_authority_ids}


@dataclass(frozen=True, kw_only=True)
class IpRestrictionModule(StoredModule):
    """The ids of the IP policies that decide about visitors."""

    ip_policy_ids: list[str]

    AUDITED = ("enabled", "ip_policy_ids")

    def references(self) -> References:
        return {"ip_policy_ids": self.ip_policy_ids}


@dataclass(frozen=True, kw_only=True)
class TlsTerminationModule(StoredModule):
    """The lowest TLS version that an edge accepts, None for a safe default. The edge stores where TLS ends."""

    min_version: str | None = None

    AUDITED = ("enabled", "min_version")
