"""Rules for API keys: every rule for every way to make a key, networks of requests, and keys of before."""

import time
from typing import Any

import pytest

from chalicelib import __main__ as operator
from chalicelib import clock, ids
from chalicelib.http.auth import Caller
from chalicelib.model.accounts import key_rules, networks, switching
from chalicelib.model.accounts.api_keys import KeyLimits
from chalicelib.model.accounts.key_rules import ApiKeyRules
from chalicelib.operator import keys, owners
from chalicelib.operator.command_line import CommandError
from chalicelib.storage.client import aws
from tests import gateway
from tests.queries import calls
from tests.refusals import UNKNOWN_TOKEN, assert_invalid, assert_refused
from tests.transports import Answer, Client

RULES, KEYS = "/account/api_key_rules", "/api_keys"
NONE = {"enabled": True, "max_lifetime": None, "require_scopes": False, "allowed_networks": None, "max_idle_days": None}
PERMITTED = "The account's rules for API keys do not permit this key:"
ELSEWHERE = "This API key cannot be used from your address, which its allowed networks do not contain."
OWN, OTHER = "192.0.2.7", "198.51.100.7"  # addresses of clients


class At:
    """The app behind a gateway that sees an address, and the headers of a client that names another."""

    base_url = "http://localhost"

    def __init__(self, address: str) -> None:
        self.address = address

    def send(self, method: str, path: str, headers: Any, body: bytes) -> Answer:
        all_headers = {**headers, "X-Forwarded-For": OWN, "Forwarded": f"for={OWN}", "X-Real-Ip": OWN}
        return gateway.answer(gateway.event(method, path, all_headers, body, identity={"sourceIp": self.address}))


def client_at(client: Client, address: str) -> Client:
    return Client(At(address), client.token, account=client.account, user=client.user)


def set_rules(admin: Client, **rules: Any) -> None:
    answer = client_at(admin, OWN).put(RULES, rules)
    assert (answer.status, answer.json) == (200, {**NONE, **rules})


def in_seconds(seconds: int) -> str:
    return clock.rfc3339(clock.at(clock.seconds() + seconds))


def test_rules_are_put_read_and_deleted_whole(admin: Client) -> None:
    assert_refused(admin.get(RULES), 404, "not_found", "The module api_key_rules is not set.")
    first = {"max_lifetime": 3600, "require_scopes": True, "max_idle_days": 90}
    put = admin.put(RULES, first)
    assert (put.status, put.json) == (200, {**NONE, **first})
    read = admin.get(RULES)
    assert (read.json, read.headers["etag"]) == (put.json, put.headers["etag"])
    assert admin.send("PUT", RULES, {}, If_Match='"1-x"').status == 412
    assert admin.put(RULES, {}).json == NONE
    replaced = admin.get("/audit_events?action=account.api_key_rules.replace").json["audit_events"]
    assert [event["details"] for event in replaced] == [
        {
            "before": {"max_lifetime": "3600", "require_scopes": "true", "max_idle_days": "90"},
            "after": {"require_scopes": "false"},
        },
        {
            "before": {},
            "after": {"enabled": "true", "max_lifetime": "3600", "require_scopes": "true", "max_idle_days": "90"},
        },
    ]
    assert [event["resource_id"] for event in replaced] == [admin.account] * 2
    assert admin.delete(RULES).status == 204
    assert admin.delete(RULES).status == 404


@pytest.mark.parametrize(
    ("rules", "wrong"),
    [
        ({"max_lifetime": 59}, {"max_lifetime": "must be at least 60"}),
        ({"max_lifetime": 157680001}, {"max_lifetime": "must be at most 157680000"}),
        ({"max_idle_days": 0}, {"max_idle_days": "must be at least 1"}),
        ({"max_idle_days": 366}, {"max_idle_days": "must be at most 365"}),
        ({"allowed_networks": []}, {"allowed_networks": "must not be empty"}),
        ({"allowed_networks": ["10.0.0.0/8"] * 11}, {"allowed_networks": "must have at most 10 entries"}),
    ],
)
def test_bounds_of_rules(admin: Client, rules: Any, wrong: dict[str, str]) -> None:
    assert_invalid(admin.put(RULES, rules), wrong)


@pytest.mark.parametrize(
    "text", ["", "10.0.0.1", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/255.0.0.0", "fe80::%1/64", "x/8"]
)
def test_networks_have_a_prefix_and_no_host_bits(admin: Client, text: str) -> None:
    rule = "must be a CIDR network without host bits, for example 192.0.2.0/24"
    assert_invalid(admin.put(RULES, {"allowed_networks": [text]}), {"allowed_networks.0": rule})
    assert_invalid(admin.post(KEYS, {"allowed_networks": [text]}), {"allowed_networks.0": rule})


def test_only_admins_with_every_scope_see_and_change_rules(admin: Client, member: Client) -> None:
    narrow = admin.with_token(admin.create(KEYS, {"scopes": ["account:write", "account:read"]})["token"])
    none = admin.with_token(admin.create(KEYS, {"scopes": ["*:read"]})["token"])
    for method, body in (("GET", None), ("PUT", {}), ("DELETE", None)):
        denied = member.send(method, RULES, body)
        assert_refused(denied, 403, "forbidden", "Only an admin may see and change the rules for API keys.")
        assert_refused(narrow.send(method, RULES, body), 403, "forbidden", "This API key lacks the scope *.")
        assert none.send(method, RULES, body).status == 403


# Rules, a request for a key that exceeds them, the field and the error, and a request that does not.
CASES: list[tuple[dict[str, Any], dict[str, Any], str, str, dict[str, Any]]] = [
    (
        {"max_lifetime": 3600},
        {},
        "expires_at",
        "must be at most 3600 seconds after the creation of the key, as the account's rules require",
        {"expires_in": 3500},
    ),
    (
        {"max_lifetime": 3600},
        {"expires_in": 3700},
        "expires_at",
        "must be at most 3600 seconds after the creation of the key, as the account's rules require",
        {"expires_in": 60},
    ),
    (
        {"require_scopes": True},
        {},
        "scopes",
        "must be set and must not contain '*', as the account's rules require",
        {"scopes": ["edges:read"]},
    ),
    (
        {"require_scopes": True},
        {"scopes": ["edges:read", "*"]},
        "scopes",
        "must be set and must not contain '*', as the account's rules require",
        {"scopes": ["*:read"]},
    ),
]


@pytest.mark.parametrize(("rules", "beyond", "field", "rule", "within"), CASES)
def test_every_maker_of_keys_keeps_to_the_rules(
    admin: Client, rules: dict[str, Any], beyond: dict[str, Any], field: str, rule: str, within: dict[str, Any]
) -> None:
    def with_expiry(request: dict[str, Any]) -> dict[str, Any]:
        ends = {"expires_at": in_seconds(request["expires_in"])} if "expires_in" in request else {}
        return {**{name: value for name, value in request.items() if name != "expires_in"}, **ends}

    set_rules(admin, **rules)
    bot = owners.add_owner(admin.account, "bot", "deployer", admin=False)
    for owner in ({}, {"owner_id": bot.id}):
        msg = f"{PERMITTED} '{field}' {rule}."
        assert_refused(admin.post(KEYS, {**with_expiry(beyond), **owner}), 403, "forbidden", msg, {field: rule})
        assert admin.post(KEYS, {**with_expiry(within), **owner}).status == 201
    with pytest.raises(CommandError) as error:
        keys.issue_key(admin.account, bot.id, "", **beyond)
    assert str(error.value) == f"The {field} {rule}."
    keys.issue_key(admin.account, bot.id, "", **within)
    keys.issue_key(admin.account, bot.id, "", **beyond, ignores_rules=True)
    assert admin.put(RULES, {**rules, "enabled": False}).status == 200
    assert admin.post(KEYS, with_expiry(beyond)).status == 201


def test_a_key_inherits_scopes_and_an_end_that_the_rules_permit(admin: Client) -> None:
    fields = {"scopes": ["api_keys:create", "edges:read"], "expires_at": in_seconds(3000)}
    maker = admin.with_token(admin.create(KEYS, fields)["token"])
    set_rules(admin, require_scopes=True, max_lifetime=3600)
    assert maker.create(KEYS, {}).items() >= fields.items()
    rule = "must be set and must not contain '*', as the account's rules require"
    answer = admin.post(KEYS, {"expires_at": fields["expires_at"]})
    assert_refused(answer, 403, "forbidden", f"{PERMITTED} 'scopes' {rule}.", {"scopes": rule})


def test_networks_of_a_key_lie_within_those_of_the_account_and_of_its_maker(admin: Client) -> None:
    set_rules(admin, allowed_networks=["192.0.2.0/24", "2001:db8::/32"])
    own_client = client_at(admin, OWN)
    rule = "must lie within 192.0.2.0/24, 2001:db8::/32, as the account's rules require; 192.0.0.0/16 does not"
    wide = own_client.post(KEYS, {"allowed_networks": ["192.0.2.0/25", "192.0.0.0/16"]})
    assert_refused(wide, 403, "forbidden", f"{PERMITTED} 'allowed_networks' {rule}.", {"allowed_networks": rule})
    new_key = own_client.create(KEYS, {"allowed_networks": ["192.0.2.0/28"]})
    assert new_key["allowed_networks"] == ["192.0.2.0/28"]
    assert own_client.get(f"{KEYS}/{new_key['id']}").json == {**new_key, "token": None}
    assert "allowed_networks" not in own_client.create(KEYS, {})
    maker = own_client.with_token(new_key["token"])
    assert maker.create(KEYS, {})["allowed_networks"] == ["192.0.2.0/28"]
    beyond = maker.post(KEYS, {"allowed_networks": ["192.0.2.0/25"]})
    rule = "must lie within the networks of your own key, 192.0.2.0/28; 192.0.2.0/25 does not"
    assert (beyond.status, beyond.json["details"]["allowed_networks"]) == (403, rule)
    assert_invalid(own_client.post(KEYS, {"allowed_networks": []}), {"allowed_networks": "must not be empty"})
    unknown = "is not accepted here; accepted: description, metadata"
    assert_invalid(
        own_client.patch(f"{KEYS}/{new_key['id']}", {"allowed_networks": None}), {"allowed_networks": unknown}
    )
    (event,) = own_client.get(f"/audit_events?resource_id={new_key['id']}").json["audit_events"]
    assert event["details"]["allowed_networks"] == ["192.0.2.0/28"]


def test_a_request_from_another_address_is_denied_whatever_its_headers_say(admin: Client) -> None:
    limited_client = admin.with_token(admin.create(KEYS, {"allowed_networks": ["192.0.2.0/28"]})["token"])
    before = admin.with_token(admin.create(KEYS, {})["token"])
    assert client_at(before, OTHER).get("/me").status == 200
    for address, status in ((OWN, 200), ("::ffff:192.0.2.7", 200), ("192.0.2.16", 403), ("", 403), ("::1", 403)):
        assert client_at(limited_client, address).get("/me").status == status
    set_rules(admin, allowed_networks=["192.0.2.0/24", "2001:db8::/32"])
    for client in (
        before,
        limited_client,
        client_at(admin, OWN).with_token(client_at(admin, OWN).create(KEYS, {})["token"]),
    ):
        assert client_at(client, OWN).get("/me").status == 200
        assert_refused(client_at(client, OTHER).get("/me"), 403, "forbidden", ELSEWHERE)
    assert client_at(before, "2001:db8::1").get("/me").status == 200
    assert client_at(limited_client, "2001:db8::1").get("/me").status == 403
    set_rules(admin, allowed_networks=["192.0.2.7/32"])
    assert [client_at(limited_client, address).get("/me").status for address in (OWN, "192.0.2.8")] == [200, 403]
    usage = client_at(admin, OWN).get(f"{KEYS}/ak_{before.token[3:30]}/usage").json
    assert usage["denied_last_hour"] == 1
    assert client_at(admin, OWN).delete(RULES).status == 204
    assert client_at(before, OTHER).get("/me").status == 200


def test_the_scope_is_checked_before_the_address(admin: Client) -> None:
    limited = admin.create(KEYS, {"allowed_networks": ["192.0.2.0/28"], "scopes": ["edges:read"]})["token"]
    answer = client_at(admin.with_token(limited), OTHER).get(KEYS)
    assert_refused(answer, 403, "forbidden", "This API key lacks the scope api_keys:read.")


def test_the_app_checks_the_address_of_a_caller_that_the_authorizer_remembers(admin: Client) -> None:
    limits = KeyLimits(networks=("192.0.2.0/24",), account_networks=("192.0.2.7/32",))
    caller = Caller(admin.account, admin.user, admin=True, limits=limits, used=clock.seconds())
    assert Caller.from_context(caller.as_context()) == caller
    for address, status in ((OWN, 200), ("192.0.2.8", 403)):
        identity = {"sourceIp": address}
        event = gateway.event("GET", KEYS, {"X-Forwarded-For": OWN}, authorizer=caller.as_context(), identity=identity)
        assert gateway.answer(event).status == status


def test_rules_that_lock_out_their_author_are_a_conflict_unless_if_match_is_sent(admin: Client) -> None:
    own_client, rules = client_at(admin, OWN), {"allowed_networks": ["198.51.100.0/24"]}
    rule = f"must contain your address, {OWN}; to set the networks anyway, send If-Match"
    refusal = own_client.put(RULES, rules)
    assert_refused(
        refusal,
        409,
        "conflict",
        "These networks would lock you out, because they do not contain your address.",
        {"allowed_networks": rule},
    )
    assert own_client.get(RULES).status == 404
    tag = own_client.put(RULES, {**rules, "enabled": False}).headers["etag"]
    assert own_client.get("/me").status == 200
    assert own_client.send("PUT", RULES, rules, If_Match='"1-x"').status == 412
    assert own_client.send("PUT", RULES, rules, If_Match=tag).status == 200
    assert own_client.get("/me").status == 403
    assert client_at(admin, OTHER).get("/me").status == 200


def test_a_key_of_the_operator_ignores_the_networks(admin: Client, capsys: pytest.CaptureFixture[str]) -> None:
    set_rules(admin, allowed_networks=["192.0.2.7/32"])
    issue = ("keys", "issue", admin.account, admin.user)
    with pytest.raises(SystemExit, match="--ignore-rules requires --reason"):
        operator.main([*issue, "--ignore-rules"])
    operator.main([*issue, "--ignore-rules", "--reason", "locked out"])
    key, token = [line.split()[1] for line in capsys.readouterr().out.splitlines()[-2:]]
    free = client_at(admin.with_token(token), OTHER)
    assert free.put(RULES, {"allowed_networks": ["198.51.100.0/24"]}).status == 200
    assert free.get("/me").status == 200
    client = free.with_token(free.create(KEYS, {})["token"])
    assert [client_at(client, address).get("/me").status for address in (OTHER, OWN)] == [200, 403]
    (event,) = free.get(f"/audit_events?resource_id={key}").json["audit_events"]
    assert event["details"]["reason"] == "locked out"


def set_last_use(client: Client, days: float) -> None:
    """Set the last use of a key to some days ago."""
    item_key = {"scope": {"S": f"token#{client.token[3:30]}"}, "id": {"S": "claim"}}
    record = aws.client("dynamodb").get_item(TableName="tunnel-edge", Key=item_key)["Item"]
    record["body"]["M"]["used_at"] = {"N": str(int(time.time() - days * 86400))}
    aws.client("dynamodb").put_item(TableName="tunnel-edge", Item=record)


def test_a_key_that_is_not_used_is_refused_like_an_unknown_one(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    never, used = (admin.with_token(admin.create(KEYS, {})["token"]) for _ in range(2))
    set_rules(admin, max_idle_days=2)
    assert [client.get("/me").status for client in (never, used)] == [200, 200]
    set_last_use(used, 1.9)
    assert used.get("/me").status == 200
    set_last_use(used, 2.1)
    assert used.get("/me").status == 200  # it was created today
    now = time.time()
    monkeypatch.setattr(clock, "seconds", lambda: int(now + 2.1 * 86400))
    set_last_use(never, 0)
    assert_refused(used.get("/me"), 401, "unauthenticated", UNKNOWN_TOKEN)
    set_last_use(never, -2)
    assert never.get("/me").status == 200
    set_last_use(admin, -2)
    assert admin.delete(RULES).status == 204
    assert used.get("/me").status == 200


def test_keys_of_before_are_listed_if_the_rules_would_not_permit_them(admin: Client, member: Client) -> None:
    endless = admin.create(KEYS, {"scopes": ["edges:read"]})["id"]
    long = admin.create(KEYS, {"scopes": ["edges:read"], "expires_at": in_seconds(7200)})["id"]
    key_id = member.create(KEYS, {"expires_at": in_seconds(600)})["id"]
    fine = admin.create(KEYS, {"scopes": ["edges:read"], "expires_at": in_seconds(600)})["id"]
    admin_key, member_key = (f"ak_{client.token[3:30]}" for client in (admin, member))
    assert admin.get(f"{KEYS}?beyond_rules=true").json["keys"] == []
    set_rules(admin, max_lifetime=3600, require_scopes=True)

    def list_ids(query: str) -> list[str]:
        return [key["id"] for key in admin.get(f"{KEYS}?beyond_rules=true{query}").json["keys"]]

    assert list_ids("") == [key_id, long, endless, member_key, admin_key]
    assert fine not in list_ids("")
    assert list_ids(f"&owner_id={member.user}") == [key_id, member_key]
    page = admin.get(f"{KEYS}?beyond_rules=true&limit=2").json
    assert page["next_page_uri"] == f"http://localhost{KEYS}?beyond_rules=true&before_id={long}&limit=2"
    assert admin.send("GET", page["next_page_uri"].removeprefix("http://localhost")).json["keys"][0]["id"] == endless
    assert_invalid(admin.get(f"{KEYS}?beyond_rules=false"), {"beyond_rules": "must be true, or absent"})
    assert admin.with_token(admin.token).get(f"{KEYS}/{endless}").status == 200


def test_networks_reach_all_keys_in_steps_that_can_be_repeated(admin: Client) -> None:
    clients = [admin.with_token(admin.create(KEYS, {})["token"]) for _ in range(120)]
    with calls() as first:
        set_rules(admin, allowed_networks=["192.0.2.0/24"])
    with calls() as again:
        set_rules(admin, allowed_networks=["192.0.2.0/24"])
    assert (first.count("BatchGetItem"), again.count("BatchGetItem")) == (2, 2)
    assert (first.count("TransactWriteItems"), again.count("TransactWriteItems")) == (3, 0)
    assert {client_at(client, OTHER).get("/me").status for client in clients} == {403}


def test_a_new_key_gets_the_rules_of_a_change_that_happens_meanwhile(admin: Client) -> None:
    item, _ = keys.issue_key(admin.account, admin.user, "")
    set_rules(admin, allowed_networks=["192.0.2.0/24"])
    item_key = {"scope": {"S": f"token#{ids.strip_prefix(item.id)}"}, "id": {"S": "claim"}}
    record = aws.client("dynamodb").get_item(TableName="tunnel-edge", Key=item_key)["Item"]
    del record["body"]["M"]["account_networks"]
    aws.client("dynamodb").put_item(TableName="tunnel-edge", Item=record)
    switching.check_new_key(item)
    fields = aws.client("dynamodb").get_item(TableName="tunnel-edge", Key=item_key)["Item"]["body"]["M"]
    assert fields["account_networks"] == {"L": [{"S": "192.0.2.0/24"}]}


def test_malformed_rules_keep_no_key_active_and_permit_no_new_one(admin: Client, member: Client) -> None:
    set_rules(admin, max_lifetime=60)
    item_key = {"scope": {"S": "accounts"}, "id": {"S": admin.account}}
    record = aws.client("dynamodb").get_item(TableName="tunnel-edge", Key=item_key)["Item"]
    record["parts"]["M"]["api_key_rules"]["M"]["max_lifetime"] = {"S": "60"}
    aws.client("dynamodb").put_item(TableName="tunnel-edge", Item=record)
    owners.switch_owner(admin.account, member.user, "off")
    assert member.get("/me").status == 401
    assert admin.post(KEYS, {}).status == 500


def test_authentication_is_one_read_of_one_unit_for_the_largest_key(admin: Client) -> None:
    largest = [f"2001:db8:ffff:ffff:ffff:ffff:ffff:fff{digit}/128" for digit in range(10)]
    scopes = ["*:read", *(f"edges:read@{ids.new('edghts')}" for _ in range(43))]
    api_key = admin.create(KEYS, {"scopes": scopes, "allowed_networks": largest})
    client = client_at(admin.with_token(api_key["token"]), "2001:db8:ffff:ffff:ffff:ffff:ffff:fff1")
    author = client_at(admin, "2001:db8:ffff:ffff:ffff:ffff:ffff:fff1")
    assert author.put(RULES, {"allowed_networks": largest, "max_idle_days": 365}).status == 200
    for _ in range(100):
        assert client.delete("/edges/https/x").status == 403
    with calls() as operations:
        client.get(f"/backends/weighted/{ids.new('bkdwd')}")
    assert operations == ["GetItem", "GetItem"]
    key = {"scope": {"S": f"token#{ids.strip_prefix(api_key['id'])}"}, "id": {"S": "claim"}}
    read = aws.client("dynamodb").get_item(TableName="tunnel-edge", Key=key, ConsistentRead=True)
    assert len(str(read["Item"])) < 9000
    name, chain = 255, len("federated") + 8 * len(ids.new("fcred") + " ")  # the largest of an owner and of its key
    assert size(read["Item"]) < 4096 - name - chain


def size(value: Any) -> int:
    """Return the size of a DynamoDB value in bytes, as its documentation counts it."""
    if isinstance(value, dict) and len(value) == 1 and next(iter(value)) in ("S", "N", "M", "L", "BOOL", "NULL"):
        ((kind, content),) = value.items()
        if kind == "M":
            return 3 + sum(1 + len(name) + size(child) for name, child in content.items())
        if kind == "L":
            return 3 + sum(1 + size(child) for child in content)
        return len(content.encode()) if kind == "S" else 21 if kind == "N" else 1
    return sum(len(name) + size(child) for name, child in value.items())


def test_rules_wait_for_the_fourth_format(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORD_FORMAT", "3")
    msg = "Rules for API keys are not accepted until the operator sets RECORD_FORMAT to 4."
    assert_refused(admin.put(RULES, {}), 409, "conflict", msg)
    rule = {"allowed_networks.0": "must be absent until the operator sets RECORD_FORMAT to 4"}
    assert_invalid(admin.post(KEYS, {"allowed_networks": ["192.0.2.0/24"]}), rule)


@pytest.mark.parametrize(
    ("limits", "wrong"),
    [
        (KeyLimits(("edges:read",), 160, ("10.1.0.0/16",)), set()),
        (KeyLimits((), 160), {"scopes"}),
        (KeyLimits(("*",), 161), {"scopes", "expires_at"}),
        (KeyLimits(("*:read",), None, ("11.0.0.0/8",)), {"expires_at", "allowed_networks"}),
        (KeyLimits(("*:read",), 160, ("10.0.0.0/7",)), {"allowed_networks"}),
        (KeyLimits(("*:read",), 160, ("::/0",)), {"allowed_networks"}),
    ],
)
def test_rules_are_a_function(limits: KeyLimits, wrong: set[str]) -> None:
    rules = ApiKeyRules(max_lifetime=60, require_scopes=True, allowed_networks=["10.0.0.0/8"])
    assert key_rules.find_violations(rules, limits, created=100).keys() == wrong
    assert key_rules.find_violations(ApiKeyRules(), limits, created=100) == {}


def test_networks_contain_addresses_of_their_version() -> None:
    assert networks.contain(["10.0.0.0/8"], "10.1.2.3")
    assert not networks.contain(["10.0.0.0/8"], "::10.1.2.3")
    assert not networks.contain(["::/0"], "10.1.2.3")
    assert not networks.contain([], "10.1.2.3")
