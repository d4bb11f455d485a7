"""Decides which requests Envoy may forward on routes with webhook verification."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from chalicelib.model.base import kinds
from chalicelib.model.edges import edges
from chalicelib.model.edges.modules.webhook_verification import WebhookModule
from chalicelib.storage import vault
from chalicelib.storage.client import aws
from chalicelib.storage.records import items, table
from chalicelib.storage.records.decoding import MalformedRecord
from edge.process import log
from edge.sign_in.secret_reports import SecretReports
from edge.sign_in.webhooks import schemes
from edge.sign_in.webhooks.schemes import Headers

_MAX_MODULES = 10_000


@dataclass(frozen=True)
class Webhook:
    """A visitor's request. `headers` has each header line, with names in lower case.

    `body` has the bytes as they were sent, which may be compressed (Content-Encoding).

    `account`, `edge`, `route` and `digest` come from Envoy's configuration. `digest` identifies the version of the
    route's module.
    """

    account: str
    edge: str
    route: str
    digest: str
    headers: Headers
    body: bytes


class WebhookChecks:
    """Verifies webhooks of at most `largest` bytes. Caches the settings of routes."""

    def __init__(self, largest: int, clock: Callable[[], float] = time.time) -> None:
        self._largest, self._clock = largest, clock
        self._reports = SecretReports("webhook_verification")
        self._modules: OrderedDict[tuple[str, str], WebhookModule] = OrderedDict()

    async def check(self, webhook: Webhook) -> int:
        """Return the status of the response, or 200 if the signature is valid.

        The status is 403 for an invalid signature, 413 for a body that is too large, and 503 if the secret cannot be
        read.
        """
        if len(webhook.body) > self._largest:
            return 413
        try:
            return await self._check(webhook)
        except (aws.AwsError, vault.Unreadable) as error:
            log.event("webhooks_unavailable", reason=type(error).__name__, route=webhook.route)
        return 503

    async def _check(self, webhook: Webhook) -> int:
        module = self._modules.get((webhook.route, webhook.digest))
        if module is None:
            module = await asyncio.to_thread(_read_module, webhook)
        rule = module.rule if module else None
        if module is None or rule is None:
            return 503
        self._remember(webhook.route, rule.digest, module)
        if any(name == "upgrade" for name, _ in webhook.headers):
            return 403  # after an upgrade (WebSocket), the client could send data without a signature
        try:
            secret = await asyncio.to_thread(module.open_secret, vault.context(webhook.account, webhook.route))
        except vault.Unreadable:
            await self._reports.store(webhook.account, webhook.edge, webhook.route, rule.digest)
            raise
        is_signed = schemes.verify(rule.provider, secret, webhook.headers, webhook.body, self._clock())
        return 200 if is_signed else 403

    def _remember(self, route: str, digest: str, module: WebhookModule) -> None:
        self._modules[route, digest] = module
        self._modules.move_to_end((route, digest))
        while len(self._modules) > _MAX_MODULES:
            self._modules.popitem(last=False)


def _read_module(webhook: Webhook) -> WebhookModule | None:
    """Read the module of a route from the store. Return None if it is missing, malformed or not enabled.

    Raises aws.Unavailable.
    """
    scope = edges.routes_scope(items.scope(webhook.account, kinds.HTTPS_EDGES.path), webhook.edge)
    item = table.find(scope, webhook.route)
    try:
        module = WebhookModule.of(item.modules["webhook_verification"]) if item else None
    except (KeyError, MalformedRecord):
        return None
    return module if module and module.enabled else None
