"""Passwords of routes and reserved domains: their rules, and that nothing shows them."""

from typing import Any

import pytest

from chalicelib.crypto import passwords
from chalicelib.model.edges.modules.basic_auth import BasicAuthModule
from chalicelib.model.tenants import sealed_values
from chalicelib.modules import basic_auth
from chalicelib.storage import vault
from tests.modules.samples import on_a_holder
from tests.operator.tenants import worlds
from tests.transports import Client

ON_ROUTE = next(module for module in basic_auth.MODULES if "routes" in module.path)
SECRET = "a-password-that-occurs-once"
MODULE = {"credentials": [{"username": "ada", "password": SECRET}]}
SHOWN = {"enabled": True, "credentials": [{"username": "ada", "password": ""}]}


@pytest.fixture(params=["route", "reservation"])
def module(admin: Client, request: pytest.FixtureRequest) -> str:
    """Return the path of the module on a new holder."""
    if request.param == "route":
        return on_a_holder(admin, ON_ROUTE)
    return f"/reserved_domains/{admin.create('/reserved_domains', {'domain': 'a.example.com'})['id']}/basic_auth"


def credentials(*pairs: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [{"username": username, "password": password} for username, password in pairs]


@pytest.mark.parametrize(
    "credentials",
    [
        credentials(("ada", "12345678")),
        credentials(("ada", "x" * 128)),
        credentials(("ada", "ö" * 128)),
        credentials(("u" * 128, "p:ss wörd")),
        credentials((" #", "        ")),
        credentials(*((f"user {number}", "password") for number in range(10))),
    ],
)
def test_credentials_are_accepted(admin: Client, module: str, credentials: list[dict[str, Any]]) -> None:
    answer = admin.put(module, {"credentials": credentials})
    assert answer.json == {
        "enabled": True,
        "credentials": [{**credential, "password": ""} for credential in credentials],
    }
    assert admin.get(module).json == answer.json


@pytest.mark.parametrize(
    ("credentials", "field"),
    [
        ([], "credentials"),
        (None, "credentials"),
        (credentials(*((f"user {number}", "password") for number in range(11))), "credentials"),
        (credentials(("ada", "password"), ("ada", "another password")), "credentials"),
        (credentials(("", "password")), "credentials.0.username"),
        (credentials((None, "password")), "credentials.0.username"),
        (credentials(("a:b", "password")), "credentials.0.username"),
        (credentials(("a\nb", "password")), "credentials.0.username"),
        (credentials(("ö" * 65, "password")), "credentials.0.username"),
        (credentials(("ada", "1234567")), "credentials.0.password"),
        (credentials(("ada", "x" * 129)), "credentials.0.password"),
        (credentials(("ada", "pass\tword")), "credentials.0.password"),
        (credentials(("ada", "")), "credentials.0.password"),
        (credentials(("ada", None)), "credentials.0.password"),
        (credentials(("ada", 12345678)), "credentials.0.password"),
        ([{"username": "ada"}], "credentials.0.password"),
        ([{"password": "password"}], "credentials.0.username"),
    ],
)
def test_other_credentials_are_refused(admin: Client, module: str, credentials: Any, field: str) -> None:
    answer = admin.put(module, {"credentials": credentials})
    assert (answer.status, [*(answer.json["details"].keys() - {"operation_id"})]) == (400, [field])
    assert SECRET not in answer.text


@pytest.mark.parametrize("scopes", [None, ["*"], ["*:read"]])
def test_no_key_sees_a_password(admin: Client, module: str, scopes: list[str] | None) -> None:
    assert admin.put(module, MODULE).json == SHOWN
    parent = module.removesuffix("/basic_auth")
    reader = admin.with_token(admin.create("/api_keys", {"scopes": scopes})["token"])
    texts = [reader.get(address).text for address in (module, parent, parent.rpartition("/")[0], "/audit_events")]
    texts += [repr(worlds.scan()), repr(BasicAuthModule(usernames=["ada"], passwords=b"sealed"))]
    assert [text for text in texts if SECRET in text or "b'sealed'" in text] == []
    assert admin.put(module, SHOWN).status == 400  # a copy of a response never replaces a password


def test_an_event_names_users_only(admin: Client, module: str) -> None:
    admin.put(module, MODULE)
    event = admin.get("/audit_events?limit=1").json["audit_events"][0]
    assert event["details"]["after"] == {"enabled": "true", "usernames": ["ada"], "passwords": "(secret)"}


def test_digests_are_sealed_for_the_module_of_its_holder(admin: Client, module: str) -> None:
    admin.put(module, MODULE)
    values = [value for record in worlds.scan() for value in sealed_values.find(record)]
    (sealed,) = [value for value in values if value.path == ("parts", "basic_auth", "passwords")]
    assert sealed.context == {"account": admin.account, "resource": f"{module.split('/')[-2]}/basic_auth"}
    plaintext = vault.unseal(sealed.ciphertext, sealed.context, bytes)
    assert SECRET.encode() not in plaintext
    (record,) = [record for record in worlds.scan() if "basic_auth" in record.get("parts", {})]
    stored_module = BasicAuthModule.of(record["parts"]["basic_auth"])
    users = stored_module.open_passwords(vault.context(admin.account, module.split("/")[-2]))
    assert {name: passwords.matches(SECRET, digest) for name, digest in users.items()} == {"ada": True}


def test_the_same_passwords_change_nothing(admin: Client, module: str) -> None:
    etag = admin.put(module, MODULE).headers["etag"]
    assert admin.put(module, MODULE).headers["etag"] == etag
    for other in (credentials(("ada", "another password")), credentials(("Ada", SECRET))):
        new_etag = admin.put(module, {"credentials": other}).headers["etag"]
        assert new_etag != etag
        etag = new_etag


def test_a_patch_of_a_route_sets_it_and_null_leaves_it(admin: Client) -> None:
    route = on_a_holder(admin, ON_ROUTE).removesuffix("/basic_auth")
    assert admin.patch(route, {"basic_auth": MODULE}).json["basic_auth"] == SHOWN
    assert admin.patch(route, {"basic_auth": None, "description": "x"}).json["basic_auth"] == SHOWN
    assert admin.patch(route, {"basic_auth": {"credentials": []}}).status == 400
    assert admin.delete(f"{route}/basic_auth").status == 204
    assert admin.get(route).json["basic_auth"] is None


def test_passwords_that_cannot_be_decrypted_can_be_replaced(admin: Client, module: str) -> None:
    admin.put(module, MODULE)
    parent_id = module.split("/")[-2]
    context = vault.context(admin.account, parent_id)
    broken = BasicAuthModule(usernames=["ada"], passwords=vault.seal(b"{}", vault.context(admin.account, "other")))
    with pytest.raises(vault.Unreadable):
        broken.open_passwords(context)
    values = {"enabled": True, **MODULE}
    stored_module = BasicAuthModule.from_request(values, context, broken)
    assert passwords.matches(SECRET, stored_module.open_passwords(context)["ada"])


@pytest.mark.parametrize(
    ("first", "second", "field"), [("oauth", "basic_auth", "credentials"), ("basic_auth", "oauth", "provider")]
)
def test_a_route_has_passwords_or_oauth(admin: Client, first: str, second: str, field: str) -> None:
    route = on_a_holder(admin, ON_ROUTE).rpartition("/")[0]
    bodies: dict[str, dict[str, Any]] = {"basic_auth": MODULE, "oauth": {"provider": {"google": {}}}}
    assert admin.patch(route, {first: bodies[first]}).status == 200
    before = admin.get(route).json
    error = f"must not be set together with the module {first}: remove that module first"

    refusal = admin.put(f"{route}/{second}", bodies[second])
    assert (refusal.status, refusal.json["details"][field]) == (400, error)
    refusal = admin.patch(route, {second: bodies[second]})
    assert (refusal.status, refusal.json["details"][f"{second}.{field}"]) == (400, error)
    both = admin.post(route.rpartition("/")[0], {"match_type": "exact_path", "match": "/both", **bodies})
    assert both.status == 400
    assert admin.get(route).json == before

    assert admin.patch(route, {first: {**bodies[first], "enabled": False}}).status == 200
    assert admin.put(f"{route}/{second}", bodies[second]).status == 400
    assert admin.delete(f"{route}/{first}").status == 204
    assert admin.put(f"{route}/{second}", bodies[second]).status == 200
