"""OAuth on HTTPS edge routes: only users of an identity provider may pass. Client secrets are encrypted."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from chalicelib.model.base import kinds
from chalicelib.model.base.records import Stored, StoredModule
from chalicelib.model.edges.edge_modules import EdgeModule, Memory
from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.storage import vault

_LISTS = ("scopes", "email_addresses", "email_domains", "teams", "organizations")


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
        """Return the decrypted client secret, "" if there is none. Raises aws.Unavailable."""
        return vault.unseal(self.client_secret, context, bytes.decode) if self.client_secret else ""


@dataclass(frozen=True, kw_only=True)
class OAuthModule(StoredModule):
    """The OAuth module of a route. `provider` has all eight providers by name; all except one are None.

    Times are in seconds. The client secret is encrypted for its route, and cannot be decrypted for another route.
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
        """Return the identity providers that are set, by name. A well-formed module has exactly one provider."""
        return [(name, provider) for name, provider in sorted(self.provider.items()) if provider]

    @classmethod
    def from_request(cls, values: Mapping[str, Any], context: Mapping[str, str], before: Self | None) -> Self:
        sealed = [provider.client_secret for provider in before.provider.values() if provider] if before else []
        providers = {
            name: requested
            and {**requested, "client_secret": vault.seal_text(requested["client_secret"], context, sealed)}
            for name, requested in values["provider"].items()
        }
        return cls.of({**values, "provider": providers})

    def to_record(self) -> dict[str, Any]:
        providers = {name: provider and provider.to_record() for name, provider in self.provider.items()}
        return {**vars(self), "provider": providers}


def make_rule(module: OAuthModule) -> SignInRule | None:
    """Return the sign-in rule of a module, or None unless it has exactly one provider.

    The rule has no ids of account, edge and route yet: `SignInRule.of_route` sets them.
    """
    if len(module.providers) != 1:
        return None
    ((name, provider),) = module.providers
    return SignInRule(
        provider=name,
        digest=_digest(name, provider, module),
        client_id=provider.client_id,
        scopes=tuple(provider.scopes),
        email_addresses=tuple(provider.email_addresses),
        email_domains=tuple(provider.email_domains),
        teams=tuple(provider.teams or ()),
        organizations=tuple(provider.organizations or ()),
        options_passthrough=module.options_passthrough,
        cookie_prefix=module.cookie_prefix,
        inactivity_timeout=module.inactivity_timeout,
        maximum_duration=module.maximum_duration,
        auth_check_interval=module.auth_check_interval,
    )


def _digest(name: str, provider: StoredProvider, module: OAuthModule) -> str:
    """Return a digest of a module, without `options_passthrough`, which does not decide who may pass.

    The digest includes the encrypted bytes of the secret, not the secret. These bytes change only with the secret.
    """
    times = (module.inactivity_timeout, module.maximum_duration, module.auth_check_interval)
    lists = [getattr(provider, attribute) or [] for attribute in _LISTS]
    facts = [name, provider.client_id, provider.client_secret.hex(), lists, module.cookie_prefix, times]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


MODULE = EdgeModule(
    name="oauth",
    parents=(kinds.HTTPS_EDGE_ROUTES,),
    stored=OAuthModule,
    read=make_rule,
    restricts_visitors=True,
    admits_ambiguous_paths=False,
    needs_plaintext=True,
    budget=16_800,
    memory=lambda _: Memory(edge_kib=425.0, route_kib=10.0),
    built_by="filters.sign_in.guard_routes",
)
