"""The OAuth module (SPEC 2.9, 4.8, 7) by its own rules; what all modules share is tested once for all of them."""

import json
from typing import Any

import pytest

from chalicelib.modules import oauth
from chalicelib.storage import vault
from chalicelib.storage.client import aws
from tests.modules import damage
from tests.modules.samples import BASE_URL, DURATIONS, GITHUB, NO_PROVIDER, PROVIDER, anywhere, on_a_holder
from tests.refusals import assert_invalid
from tests.transports import RECORD, Client

(OAUTH,) = oauth.MODULES

DEFAULTS = {
    "enabled": True,
    "options_passthrough": False,
    "cookie_prefix": "service.",
    "inactivity_timeout": 0,
    "maximum_duration": 0,
    "auth_check_interval": 0,
}
TOGETHER = "must be given together with client_id, or not at all"
WITH_AN_APP = "must be empty without client_id and client_secret"
PROVIDERS = list(NO_PROVIDER)
GOOGLE: dict[str, Any] = {"provider": {"google": {}}}
EXACTLY_ONE = f"must name exactly one of {', '.join(PROVIDERS)}"
APP = {"client_id": "an app", "client_secret": "hunter2"}


def scan_table() -> list[dict[str, Any]]:
    pages = aws.client("dynamodb").get_paginator("scan").paginate(TableName="tunnel-edge")
    return [record for page in pages for record in page["Items"]]


def test_every_provider_can_be_the_one(admin: Client) -> None:
    address = anywhere(OAUTH)
    for name in PROVIDERS:
        list_fields: dict[str, list[str]] = {"teams": [], "organizations": []} if name == "github" else {}
        answer = admin.put(address, {"provider": {name: {}}})
        assert answer.json == {**DEFAULTS, "provider": {**NO_PROVIDER, name: {**PROVIDER, **list_fields}}}
        assert list(answer.json["provider"]) == PROVIDERS


def test_a_provider_that_a_record_lacks_is_null(admin: Client) -> None:
    module = on_a_holder(admin, OAUTH)
    before = admin.put(module, GOOGLE).json
    damage.remove(module, "provider", PROVIDERS[-1])
    assert admin.get(module).json == before


def test_every_provider_takes_an_app_scopes_and_who_may_pass(admin: Client) -> None:
    address = anywhere(OAUTH)
    for name in PROVIDERS:
        provider = {field: value for field, value in GITHUB.items() if name == "github" or field in PROVIDER}
        answer = admin.put(address, {"provider": {**NO_PROVIDER, name: provider}})
        assert answer.json == {**DEFAULTS, "provider": {**NO_PROVIDER, name: provider}}
        assert admin.get(address).json == answer.json
        assert admin.put(address, answer.json).json == answer.json  # what is shown can be sent again


def test_null_and_empty_strings_mean_unset(admin: Client) -> None:
    unset = {**DEFAULTS, "provider": {**NO_PROVIDER, "github": {**PROVIDER, "teams": [], "organizations": []}}}
    null = {"provider": {"github": dict.fromkeys(GITHUB)}, **dict.fromkeys(DEFAULTS)}
    empty = {"provider": {"github": {"client_id": "", "client_secret": ""}}, "cookie_prefix": ""}
    for body in (null, empty):
        assert admin.put(anywhere(OAUTH), body).json == unset


def test_exactly_one_provider_is_named(admin: Client) -> None:
    providers: Any
    for providers in ({}, NO_PROVIDER, {"github": {}, "google": {}}, {name: {} for name in PROVIDERS}):
        assert_invalid(admin.put(anywhere(OAUTH), {"provider": providers}), {"provider": EXACTLY_ONE})
    for other in (None, ["x"], "github", 1):
        assert_invalid(admin.put(anywhere(OAUTH), {"provider": other}), {"provider": "must be an object"})
    answer = admin.put(anywhere(OAUTH), {"provider": {"github": {}, "unknown": {}}})
    assert_invalid(answer, {"provider.unknown": f"is not accepted here; accepted: {', '.join(PROVIDERS)}"})


def test_teams_and_organizations_are_only_for_github(admin: Client) -> None:
    rule = f"is not accepted here; accepted: {', '.join(PROVIDER)}"
    for name in PROVIDERS[1:]:
        answer = admin.put(anywhere(OAUTH), {"provider": {name: {"teams": ["a/b"], "organizations": ["a"]}}})
        assert_invalid(answer, {f"provider.{name}.teams": rule, f"provider.{name}.organizations": rule})


def test_a_client_id_and_a_client_secret_come_together(admin: Client) -> None:
    for name, value in APP.items():
        for other in ({}, dict.fromkeys(APP), dict.fromkeys(APP, "")):
            answer = admin.put(anywhere(OAUTH), {"provider": {"google": {**other, name: value}}})
            assert_invalid(answer, {"provider.google.client_secret": TOGETHER})


def test_scopes_need_an_app_of_ones_own(admin: Client) -> None:
    answer = admin.put(anywhere(OAUTH), {"provider": {"google": {"scopes": ["openid"]}}})
    assert_invalid(answer, {"provider.google.scopes": WITH_AN_APP})
    for half in ("client_id", "client_secret"):
        answer = admin.put(anywhere(OAUTH), {"provider": {"google": {"scopes": ["openid"], half: "x"}}})
        errors = {"provider.google.client_secret": TOGETHER}
        assert answer.json["details"].items() >= errors.items()
        assert (answer.status, answer.json["error_code"]) == (400, "invalid_request")
    provider = {**PROVIDER, **APP, "scopes": ["openid"]}
    assert admin.put(anywhere(OAUTH), {"provider": {"google": provider}}).json["provider"]["google"] == provider


@pytest.mark.parametrize("field", DURATIONS)
def test_durations_are_32_bits_of_seconds(admin: Client, field: str) -> None:
    address, request = anywhere(OAUTH), GOOGLE
    for seconds in (0, 1, 2**32 - 1):
        assert admin.put(address, {**request, field: seconds}).json[field] == seconds
        assert f'"{field}":{seconds},' in admin.get(address).text.replace("}", ",")
    for seconds, rule in ((-1, "must be at least 0"), (2**32, "must be at most 4294967295")):
        assert_invalid(admin.put(address, {**request, field: seconds}), {field: rule})
    for value in ("60", 60.0, 1.5, True, [60]):
        assert_invalid(admin.put(address, {**request, field: value}), {field: "must be an integer"})


def test_a_cookie_prefix_is_letters_digits_and_dots(admin: Client) -> None:
    address, request = anywhere(OAUTH), GOOGLE
    for prefix in ("a", "service.", "Acme.v2.", ".", "9" * 64):
        assert admin.put(address, {**request, "cookie_prefix": prefix}).json["cookie_prefix"] == prefix
    for prefix in ("a_b", "a b", "a=", "é", "a;", "a\n", "9" * 65):
        answer = admin.put(address, {**request, "cookie_prefix": prefix})
        assert_invalid(answer, {"cookie_prefix": "must be 1 to 64 letters, digits and dots"})


def test_a_provider_is_bounded_as_a_whole(admin: Client) -> None:
    address = anywhere(OAUTH)
    emails = [f"{number:03}@{'a' * 60}.{'b' * 60}.example.com" for number in range(112)]
    provider = {"github": {"email_addresses": emails, "organizations": ["a"]}}
    text = json.dumps(admin.put(address, {"provider": provider}).json["provider"], separators=(",", ":"))
    room = 16_384 - (len(json.dumps(text)) - 2)
    assert 0 < room < 250
    provider["github"]["organizations"] = ["a" * (room + 1)]
    assert admin.put(address, {"provider": provider}).status == 200
    provider["github"]["organizations"] = ["a" * (room + 2)]
    rule = "must be at most 16384 characters as JSON in ASCII, with each quote and backslash counted twice"
    assert_invalid(admin.put(address, {"provider": provider}), {"provider": rule})


EMAIL = "must be an e-mail address, for example ada@example.com"
DOMAIN = "must be a domain, for example example.com"
TEAM = "must be of the form <org-slug>/<team-slug>"
ORGANIZATION = "must be the slug of an organization, for example acme-inc"


@pytest.mark.parametrize(
    ("field", "good", "bad", "rule"),
    [
        (
            "email_addresses",
            "ada.l+x@mail.example.com",
            [
                "ada",
                "@example.com",
                "ada@",
                "ada@x",
                "a b@x.io",
                "a\0b@x.io",
                f"ada@{'b.' * 125}",
                f"ada@{'b.' * 125}io",
                "",
            ],
            EMAIL,
        ),
        (
            "email_domains",
            "mail.example.com",
            ["example", "@example.com", "*.example.com", "-a.com", "a..b", ""],
            DOMAIN,
        ),
        ("teams", "acme/ops-team", ["acme", "acme/", "/ops", "acme/ops/x", "acme/ops ", "-a/b", ""], TEAM),
        ("organizations", "acme-corp", ["acme/ops", "acme corp", "-acme", ""], ORGANIZATION),
    ],
)
def test_who_may_pass_is_checked_for_form(admin: Client, field: str, good: str, bad: list[str], rule: str) -> None:
    address = anywhere(OAUTH)
    answer = admin.put(address, {"provider": {"github": {field: [good, *bad]}}})
    assert_invalid(answer, {f"provider.github.{field}.{index}": rule for index, _ in enumerate(bad, 1)})
    assert admin.put(address, {"provider": {"github": {field: [good]}}}).json["provider"]["github"][field] == [good]
    answer = admin.put(address, {"provider": {"github": {field: [good, 1, None]}}})
    assert_invalid(answer, dict.fromkeys([f"provider.github.{field}.{n}" for n in (1, 2)], "must be a string"))


def test_a_client_secret_is_kept_only_sealed(admin: Client) -> None:
    secret = "a-client-secret-that-nobody-else-has"
    address = on_a_holder(admin, OAUTH)
    provider = {"client_id": "an app", "client_secret": secret}
    admin.put(address, {"provider": {"gitlab": provider}})
    records = scan_table()
    assert secret not in json.dumps(records, default=lambda raw: raw.decode(errors="replace"))
    (record,) = [record for record in records if "parts" in record]
    sealed = record["parts"]["M"]["oauth"]["M"]["provider"]["M"]["gitlab"]["M"]["client_secret"]["B"]
    context = {"account": admin.account, "resource": record["id"]["S"].rpartition("/")[2]}
    assert vault.unseal(sealed, context, bytes.decode) == secret
    with pytest.raises(aws.client("kms").exceptions.InvalidCiphertextException):
        vault.unseal(sealed, {**context, "resource": "edghtsrt_another"}, bytes.decode)


def test_a_client_secret_is_shown_where_the_module_is_and_logged_nowhere(admin: Client, stranger: Client) -> None:
    secret = "another-client-secret-that-nobody-else-has"
    address = on_a_holder(admin, OAUTH)
    request = {"provider": {"gitlab": {"client_id": "an app", "client_secret": secret}}}
    route, edge = address.removesuffix("/oauth"), address.partition("/routes")[0]
    answers = [admin.put(address, request), *(admin.get(path) for path in (address, route, edge, "/edges/https"))]
    assert [answer.text.count(secret) for answer in answers] == [1] * 5
    assert [answer.headers.get("cache-control") for answer in answers] == ["no-store"] * 5
    hidden = [
        admin.put(address, {"provider": {"gitlab": {"client_secret": secret}}}),
        admin.put(address, {"provider": {"gitlab": {"client_id": 1, "client_secret": secret, "x": secret}}}),
        admin.put(address, {"provider": {"okta": {"client_secret": secret}}}),
        stranger.get(address),
    ]
    assert [answer.status for answer in hidden] == [400, 400, 400, 404]
    assert secret not in "".join(answer.text for answer in hidden)
    assert secret not in "\n".join(RECORD.logs)
    assert f"{BASE_URL}{edge}" in answers[-1].text


def test_what_is_refused_leaves_the_module_as_it_is(admin: Client) -> None:
    address = anywhere(OAUTH)
    before = admin.put(address, {"provider": {"google": {"email_domains": ["example.com"]}}}).json
    assert admin.put(address, {"provider": {"google": {"email_domains": ["x"]}}}).status == 400
    assert admin.put(address, b'{"provider": {"google": {}}, "provider": {"google": {}}}').status == 400
    assert admin.get(address).json == before
