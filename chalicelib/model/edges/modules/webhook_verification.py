"""Webhook verification on HTTPS edge routes: only requests that a provider signed may pass. Secrets are encrypted."""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

from chalicelib.model.base import kinds
from chalicelib.model.base.records import StoredModule
from chalicelib.model.edges.edge_modules import EdgeModule, Memory
from chalicelib.storage import vault

WebhookProvider = Literal[
    "BITBUCKET", "GITHUB", "GITLAB", "INTERCOM", "PAGERDUTY", "SHOPIFY", "SLACK", "STRIPE", "SVIX", "ZENDESK"
]


@dataclass(frozen=True, kw_only=True)
class WebhookModule(StoredModule):
    """The provider of a route's webhooks, by its name in capitals, and the provider's secret for signatures.

    The secret is encrypted for this module of its route, and cannot be decrypted as another secret of the route.
    """

    provider: str
    secret: bytes = field(repr=False)

    AUDITED = ("enabled", "provider", "secret")

    @classmethod
    def from_request(cls, values: Mapping[str, Any], context: Mapping[str, str], before: Self | None) -> Self:
        former = [before.secret] if before else []
        return cls.of({**values, "secret": vault.seal_text(values["secret"], webhook_context(context), former)})

    @property
    def rule(self) -> "WebhookRule | None":
        """Return the webhook rule that the edge enforces. Return None if the provider is unknown or there is no secret.

        The digest includes the encrypted bytes of the secret, not the secret. These bytes change only with the secret.
        """
        known = next((provider for provider in get_args(WebhookProvider) if provider == self.provider), None)
        digest = hashlib.sha256(f"{known}\n".encode() + self.secret).hexdigest()[:16]
        return WebhookRule(known, digest) if known and self.secret else None

    def open_secret(self, context: Mapping[str, str]) -> str:
        """Return the decrypted secret, "" if there is none. `context` is the encryption context of the route.

        Raises aws.Unavailable, and vault.Unreadable if it cannot be decrypted.
        """
        return vault.unseal_readable(self.secret, webhook_context(context), bytes.decode) if self.secret else ""


@dataclass(frozen=True)
class WebhookRule:
    """The provider of a route's webhooks, without its secret.

    `digest` changes with the provider and the secret.
    """

    provider: WebhookProvider
    digest: str


def webhook_context(context: Mapping[str, str]) -> dict[str, str]:
    """Return the encryption context of a webhook secret: the context of its route, with the module's name."""
    return vault.context(context["account"], f"{context['resource']}/webhook_verification")


def svix_key(secret: str) -> bytes:
    """Return the signing key in a webhook secret of Svix, b"" if the secret is malformed."""
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        return b""


MODULE = EdgeModule(
    name="webhook_verification",
    parents=(kinds.HTTPS_EDGE_ROUTES,),
    stored=WebhookModule,
    read=lambda module: module.rule,
    restricts_visitors=True,
    admits_ambiguous_paths=False,
    needs_plaintext=True,
    budget=1_900,
    memory=lambda _: Memory(entry_kib=2.0),
    configures_route="filters.webhooks.require",
)
