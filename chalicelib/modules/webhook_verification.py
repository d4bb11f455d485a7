"""Webhook verification on HTTPS edge routes: only requests that a provider signed may pass.

The secret is encrypted like every secret. It is decrypted only for keys that may write edges, and for the edge.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from chalicelib.http.endpoints import NO_STORE, Call
from chalicelib.http.module import Enabled, Module
from chalicelib.model.edges.modules.webhook_verification import MODULE, WebhookModule, WebhookProvider, svix_key
from chalicelib.schema.fields import SECRET
from chalicelib.schema.rules import PRINTABLE, WithData, max_bytes
from chalicelib.storage import vault
from chalicelib.storage.records import items
from chalicelib.storage.records.items import Item

_MAX_SECRET = 255


def _check_secret(secret: str, above: Mapping[str, Any]) -> str:
    if above.get("provider") == "SVIX" and not svix_key(secret):
        raise ValueError("must be a signing secret of Svix: whsec_ followed by base64 text")
    return secret


class WebhookVerification(Enabled):
    """Admits only requests that a webhook provider signed with a secret, whatever their method."""

    provider: WebhookProvider
    """The provider that sends the webhooks. `SVIX` also stands for all providers that follow Standard Webhooks."""

    secret: Annotated[str, SECRET, PRINTABLE, max_bytes(_MAX_SECRET), WithData(_check_secret)]
    f"""The secret that the provider signs with, at most {_MAX_SECRET} bytes."""


class ShownVerification(Enabled):
    """Admits only requests that a webhook provider signed with a secret, whatever their method."""

    provider: WebhookProvider
    """The provider that sends the webhooks."""

    secret: Annotated[str, SECRET]
    """The secret that the provider signs with, `""` for API keys without the scope `edges:write` for the edge."""


def _build_response(module: WebhookModule, route: Item, call: Call) -> dict[str, Any]:
    edge = (items.find_parent(route.scope) or ("", ""))[1]
    sees_secret = call.caller.limits.covers(f"edges:write@{edge}")  # may replace the secret, so may see it
    context = vault.context(route.account, route.id)
    return {**vars(module), "secret": module.open_secret(context) if sees_secret else ""}


MODULES = tuple(
    Module(
        path=path,
        shape=WebhookVerification,
        stored=MODULE.stored,
        shows=ShownVerification,
        to_response=_build_response,
        headers=NO_STORE,
    )
    for path in MODULE.paths
)
