"""Decisions about webhooks, with the modules of routes in the store."""

import asyncio
from dataclasses import replace

import pytest

from chalicelib.model.base import kinds
from chalicelib.model.edges import edges
from chalicelib.model.edges.served import Modules
from chalicelib.modules import webhook_verification
from chalicelib.storage.records import items, table
from edge.sign_in.webhooks.webhook_checks import Webhook, WebhookChecks
from tests.edge.sign_in import broken_keys, statuses
from tests.edge.sign_in.webhooks.signing import secret_of, sign
from tests.modules import damage
from tests.modules.samples import on_a_holder
from tests.transports import Client

(WEBHOOK,) = webhook_verification.MODULES
NOW, BODY, LARGEST = 1_790_000_000, b"body", 1024


def request(admin: Client, module: str, body: bytes = BODY) -> Webhook:
    """Return a signed request to a route, with the digest of its module now."""
    edge, route = module.split("/")[3], module.split("/")[5]
    item = table.find(edges.routes_scope(items.scope(admin.account, kinds.HTTPS_EDGES.path), edge), route)
    assert item
    rule = Modules.of(item.modules, kinds.HTTPS_EDGE_ROUTES).values.get("webhook_verification")
    return Webhook(admin.account, edge, route, rule.digest if rule else "", sign("SLACK", body, NOW), body)


def check(checks: WebhookChecks, webhook: Webhook) -> int:
    return asyncio.run(checks.check(webhook))


@pytest.fixture
def module(admin: Client) -> str:
    """Set a module; return its path."""
    path = on_a_holder(admin, WEBHOOK)
    assert admin.put(path, {"provider": "SLACK", "secret": secret_of("SLACK")}).status == 200
    return path


@pytest.fixture
def checks() -> WebhookChecks:
    return WebhookChecks(LARGEST, lambda: NOW)


def test_a_signed_webhook_passes(admin: Client, module: str, checks: WebhookChecks) -> None:
    webhook = request(admin, module)
    assert [check(checks, webhook) for _ in range(2)] == [200, 200]
    assert check(checks, replace(webhook, body=b"altered")) == 403
    assert check(checks, replace(webhook, headers=[])) == 403
    assert check(checks, replace(webhook, headers=[*webhook.headers, ("upgrade", b"websocket")])) == 403


@pytest.mark.parametrize(("length", "status"), [(LARGEST, 200), (LARGEST + 1, 413)])
def test_a_body_has_a_bound(admin: Client, module: str, checks: WebhookChecks, length: int, status: int) -> None:
    assert check(checks, request(admin, module, b"x" * length)) == status


def test_a_changed_secret_is_read_by_its_digest(admin: Client, module: str, checks: WebhookChecks) -> None:
    before = request(admin, module)
    assert check(checks, before) == 200
    admin.put(module, {"provider": "SLACK", "secret": "another"})
    after = request(admin, module)
    assert before.digest != after.digest
    assert check(checks, after) == 403
    assert (
        check(WebhookChecks(LARGEST, lambda: NOW), before) == 403
    )  # the digest is unknown, so the module of now counts


def test_a_route_without_the_module_is_closed(admin: Client, module: str) -> None:
    webhook = request(admin, module)
    admin.put(module, {"enabled": False, "provider": "SLACK", "secret": secret_of("SLACK")})
    assert check(WebhookChecks(LARGEST, lambda: NOW), webhook) == 503
    admin.delete(module)
    assert check(WebhookChecks(LARGEST, lambda: NOW), webhook) == 503
    for other in (replace(webhook, route="edghtsrt_1"), replace(webhook, account="acct_1")):
        assert check(WebhookChecks(LARGEST, lambda: NOW), other) == 503


def test_a_secret_that_cannot_be_decrypted_is_in_the_status_until_it_is_set_again(
    admin: Client, module: str, checks: WebhookChecks
) -> None:
    edge = module.split("/")[3]
    admin.patch(f"/edges/https/{edge}", {"hostports": ["hooks.tunnels.localhost:443"]})
    damage.replace_secret(module, "secret")
    damaged = request(admin, module)
    assert statuses.route_status(admin, edge) == ("live", "")
    assert [check(checks, damaged) for _ in range(2)] == [503, 503]
    sentence = "The webhook secret cannot be decrypted: set the secret again."
    assert statuses.route_status(admin, edge) == ("refused", sentence)
    assert admin.put(module, {"provider": "SLACK", "secret": secret_of("SLACK")}).status == 200
    assert statuses.route_status(admin, edge) == ("live", "")
    assert check(checks, request(admin, module)) == 200


@broken_keys.each_error
def test_a_store_or_key_that_cannot_be_used_closes(
    admin: Client, module: str, checks: WebhookChecks, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    webhook = request(admin, module)
    with broken_keys.failing(monkeypatch, error):
        assert check(checks, webhook) == 503
    assert check(checks, webhook) == 200
