"""The policies against what the code really calls: nothing is missing from them, and nothing is in them for nobody."""

import fnmatch
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from chalicelib import operations
from chalicelib.authorizer import authorize
from chalicelib.storage import aws
from edge.records import Gateway, Grant, Opening
from edge.settings import Settings
from edge.store import Records
from tests import gateway, openssl
from tests.cloud import policies
from tests.conftest import ROOT
from tests.modules.samples import OF_EDGES, SAMPLES, anywhere
from tests.samples import EDITABLE_KINDS, Collection, public_key
from tests.transports import Client

Calls = list[tuple[str, Mapping[str, Any]]]


@pytest.fixture
def calls() -> Iterator[Calls]:
    """Record every call to AWS from here on: its action's name, and what it was given."""
    made: Calls = []

    def record(params: Mapping[str, Any], model: Any, **_: object) -> None:
        made.append((f"{model.service_model.service_name}:{model.name}", params))

    clients = [aws.client(service) for service in ("dynamodb", "kms")]
    for client in clients:
        client.meta.events.register("provide-client-params", record)
    yield made
    for client in clients:
        client.meta.events.unregister("provide-client-params", record)


def actions(calls: Calls) -> set[str]:
    """Return the actions that a policy must allow: those of a transaction's parts, for a transaction."""
    parts = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}
    named = set()
    for action, given in calls:
        writes = [name for write in given.get("TransactItems", ()) for name in write]
        named |= {f"dynamodb:{parts[name]}" for name in writes} if writes else {action}
    return named


def allowed(policy: str) -> set[str]:
    """Return what a policy allows, but for writing its log."""
    named = policies.actions(policies.of_function(policy))
    return {action for action in named if not action.startswith("logs:")}


def test_the_api_may_do_what_it_does_and_no_more(calls: Calls) -> None:
    admin = gateway.admin()
    for resource in EDITABLE_KINDS:
        them = Collection.of(admin, resource)
        one = them.one()
        admin.patch(f"{them.path}/{one['id']}", {"description": "changed"})
        admin.get(them.path)
        admin.delete(f"{them.path}/{one['id']}")
    for module in OF_EDGES:
        admin.put(anywhere(module), SAMPLES[module.path][0].request)
    assert actions(calls) == allowed("policy-api.json")


def test_the_authorizer_may_read_the_claims_of_tokens_and_whether_a_bot_is_active(calls: Calls, admin: Client) -> None:
    bot = operations.add_owner(admin.account, "bot", "robot", admin=False)
    _, token = operations.issue_key(admin.account, bot.id, "")
    aws.client("dynamodb").update_item(  # as the first edition wrote it, which asked the bot at each request
        TableName="tunnel-edge",
        Key={"scope": {"S": f"token#{token[:27]}"}, "id": {"S": "claim"}},
        UpdateExpression="REMOVE #body.#active",
        ExpressionAttributeNames={"#body": "body", "#active": "active"},
    )
    calls.clear()
    for client in (admin, admin.with_token(token)):
        sent = {"Authorization": f"Bearer {client.token}", "Service-Version": "2"}
        authorize(gateway.event("GET", "/api_keys", sent), None)
    assert actions(calls) == allowed("policy-authorizer.json")
    (condition,) = [said["Condition"] for said in policies.of_function("policy-authorizer.json") if "Condition" in said]
    patterns = condition["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
    read = {given["Key"]["scope"]["S"] for _, given in calls}
    matched = [set(fnmatch.filter(read, pattern)) for pattern in patterns]
    assert set().union(*matched) == read
    assert all(matched)
    others = ["accounts", f"{admin.account}#/api_keys", f"{admin.account}#/users", "ssh_key#SHA256:x"]
    assert [fnmatch.filter(others, pattern) for pattern in patterns] == [[], []]


def test_secrets_are_sealed_for_the_account_and_resource_that_the_policy_asks_for(calls: Calls) -> None:
    gateway.admin().create("/ssh_certificate_authorities", {})
    (condition,) = [said["Condition"] for said in policies.of_function("policy-api.json") if "Condition" in said]
    (sealed,) = [given["EncryptionContext"] for action, given in calls if action.startswith("kms:")]
    assert sorted(sealed) == condition["ForAllValues:StringEquals"]["kms:EncryptionContextKeys"]


def test_the_edge_writes_tunnels_and_what_is_its_own_and_only_reads_the_rest(calls: Calls, admin: Client) -> None:
    credential = admin.create("/ssh_credentials", {"public_key": public_key()})
    issued = openssl.issue("/CN=a.tunnels.localhost", extensions=("subjectAltName=DNS:a.tunnels.localhost",))
    certificate = admin.create("/tls_certificates", issued.upload)
    calls.clear()
    _work_as_an_edge(admin.account, credential["id"], certificate["id"])
    role = yaml_parse((ROOT / "infra" / "deploy" / "edge.yaml").read_text())["Resources"]["EdgeRole"]["Properties"]
    statements = role["Policies"][0]["PolicyDocument"]["Statement"]
    assert actions(calls) == policies.actions(statements)
    (writes,) = [said for said in statements if "dynamodb:PutItem" in said["Action"]]
    patterns = writes["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
    matched = [fnmatch.filter(_written(calls), pattern) for pattern in patterns]
    assert {key for keys in matched for key in keys} == _written(calls)
    assert all(matched)
    others = [
        f"{admin.account}#/api_keys",
        "accounts",
        "token#x",
        "public_key#x",
        "hostports#x",
        f"{admin.account}#/users",
    ]
    assert [fnmatch.filter(others, pattern) for pattern in patterns] == [[]] * len(patterns)


def _work_as_an_edge(account: str, credential: str, certificate: str) -> None:
    edge = Records(Settings())
    edge.hop_authority()
    edge.announce(Gateway("gw-1", "192.0.2.1", 1), lease=60)
    grant = edge.grant_again(Grant(account, credential, ()))
    assert grant
    opening = Opening(grant, "gw-1", "ts_1", "192.0.2.9", "a.tunnels.localhost", "https://a.tunnels.localhost")
    for _ in range(2):  # the second time takes the name over
        leased = edge.open(opening, lease=60, most=100)
    edge.renew([leased], lease=60)
    edge.served()
    edge.key_pair(account, certificate)
    edge.close(leased)
    edge.withdraw("gw-1")


def _written(calls: Calls) -> set[str]:
    """Return the partition keys of every write."""
    alone = [given for action, given in calls if action.split(":")[1] in ("PutItem", "UpdateItem", "DeleteItem")]
    parts = [write for _, given in calls for it in given.get("TransactItems", ()) for write in it.values()]
    return {(write.get("Key") or write["Item"])["scope"]["S"] for write in [*alone, *parts]}
