"""Webhook verification: its providers, and its secret, which is shown by the rules of OAuth's client secret."""

from typing import Any

import pytest

from chalicelib.model.edges.modules.webhook_verification import WebhookModule
from chalicelib.model.tenants import sealed_values
from chalicelib.modules import webhook_verification
from chalicelib.storage import vault
from tests.modules.samples import on_a_holder
from tests.operator.tenants import worlds
from tests.refusals import assert_invalid
from tests.transports import Client

(WEBHOOK,) = webhook_verification.MODULES
SECRET = "a-secret-of-a-provider-that-occurs-once"
MODULE = {"provider": "GITHUB", "secret": SECRET}
PROVIDERS = ["BITBUCKET", "GITHUB", "GITLAB", "INTERCOM", "PAGERDUTY", "SHOPIFY", "SLACK", "STRIPE", "SVIX", "ZENDESK"]


def key(admin: Client, scopes: list[str] | None) -> Client:
    """Return a client with a new key of these scopes."""
    return admin.with_token(admin.create("/api_keys", {"scopes": scopes})["token"])


def addresses(module: str) -> list[str]:
    """Return the addresses of all responses that contain the module."""
    route, edge = module.removesuffix("/webhook_verification"), module.partition("/routes")[0]
    return [module, route, f"{edge}/routes", edge, "/edges/https"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_ten_providers_are_known(admin: Client, provider: str) -> None:
    body = {"provider": provider, "secret": "whsec_c2VjcmV0"}
    assert admin.put(on_a_holder(admin, WEBHOOK), body).json == {"enabled": True, **body}


@pytest.mark.parametrize("provider", ["", "github", "SNS", "TWILIO", "GIT HUB", None, 1, ["GITHUB"]])
def test_any_other_provider_is_refused(admin: Client, provider: Any) -> None:
    answer = admin.put(on_a_holder(admin, WEBHOOK), {**MODULE, "provider": provider})
    assert answer.status == 400
    assert list(answer.json["details"].keys() - {"operation_id"}) == ["provider"]


@pytest.mark.parametrize("secret", ["", None, "x" * 256, "a\nb"])
def test_a_secret_that_no_provider_has_is_refused(admin: Client, secret: Any) -> None:
    answer = admin.put(on_a_holder(admin, WEBHOOK), {**MODULE, "secret": secret})
    assert answer.status == 400
    assert list(answer.json["details"].keys() - {"operation_id"}) == ["secret"]


@pytest.mark.parametrize("secret", ["whsec_", "whsec_é", "a secret", "whsec_c2V"])
def test_a_secret_of_svix_is_base64(admin: Client, secret: str) -> None:
    answer = admin.put(on_a_holder(admin, WEBHOOK), {"provider": "SVIX", "secret": secret})
    assert_invalid(answer, {"secret": "must be a signing secret of Svix: whsec_ followed by base64 text"})


def test_both_fields_are_required_even_if_it_is_disabled(admin: Client) -> None:
    module = on_a_holder(admin, WEBHOOK)
    for body, missing in (
        ({}, ["provider", "secret"]),
        ({"secret": "x"}, ["provider"]),
        ({"provider": "SLACK"}, ["secret"]),
    ):
        answer = admin.put(module, {"enabled": False, **body})
        assert sorted(answer.json["details"].keys() - {"operation_id"}) == missing


@pytest.mark.parametrize("scopes", [None, ["*"], ["*:read", "edges:write"]])
def test_a_key_that_may_write_edges_sees_the_secret(admin: Client, scopes: list[str] | None) -> None:
    module = on_a_holder(admin, WEBHOOK)
    admin.put(module, MODULE)
    reader = key(admin, scopes)
    assert [reader.get(address).text.count(SECRET) for address in addresses(module)] == [1] * 5


@pytest.mark.parametrize("scopes", [["*:read"], ["edges:read"], ["edges:read", "api_keys:write"]])
def test_any_other_key_gets_an_empty_string(admin: Client, scopes: list[str]) -> None:
    module = on_a_holder(admin, WEBHOOK)
    admin.put(module, MODULE)
    reader = key(admin, scopes)
    answers = [reader.get(address) for address in addresses(module)]
    assert [(answer.status, answer.text.count(SECRET), answer.headers["cache-control"]) for answer in answers] == [
        (200, 0, "no-store")
    ] * 5
    assert answers[0].json == {"enabled": True, "provider": "GITHUB", "secret": ""}
    assert admin.put(module, answers[0].json).status == 400  # a reader's copy never erases the secret
    assert admin.get(module).json["secret"] == SECRET


def test_the_secret_is_in_no_event(admin: Client) -> None:
    admin.put(on_a_holder(admin, WEBHOOK), MODULE)
    event = admin.get("/audit_events?limit=1").json["audit_events"][0]
    assert event["action"] == "https_edge_route.webhook_verification.replace"
    assert event["details"]["after"] == {"enabled": "true", "provider": "GITHUB", "secret": "(secret)"}


def test_the_secret_is_sealed_for_its_module_of_its_route(admin: Client) -> None:
    module = on_a_holder(admin, WEBHOOK)
    admin.put(module, MODULE)
    route = module.split("/")[-2]
    assert SECRET not in repr(worlds.scan())
    values = [value for record in worlds.scan() for value in sealed_values.find(record)]
    (sealed,) = [value for value in values if value.path == ("parts", "webhook_verification", "secret")]
    assert sealed.context == {"account": admin.account, "resource": f"{route}/webhook_verification"}
    assert vault.unseal(sealed.ciphertext, sealed.context, bytes.decode) == SECRET
    assert "sealed" not in repr(WebhookModule(provider="GITHUB", secret=b"sealed"))
