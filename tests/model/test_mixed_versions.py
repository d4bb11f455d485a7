"""What a newer version stored survives every writer: unknown fields, modules, attributes and unique keys.

Each test extends all records of the table, and asks after each write what an existing record has lost.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from chalicelib import __main__ as operator
from chalicelib import clock, edges, modules
from chalicelib.http.module import Module
from chalicelib.http.resource import EditableResource, Resource
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import Report
from chalicelib.model.names import proof_checks
from chalicelib.model.names.proofs import CheckResult, apply_check
from chalicelib.model.tunnels import gateways, online_tunnels, tunnels, usage
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel, Traffic
from chalicelib.resources.accounts import api_key_rules
from chalicelib.schema.shapes import names
from infra.build.openapi import examples
from tests import newer
from tests import tunnels as opening
from tests.old_records import store_records
from tests.samples import KINDS, Collection, each_kind, fresh_value
from tests.transports import Client

EVERY_MODULE = (*modules.load_all(), api_key_rules.ROUTES)
HOLDERS = {resource.kind for resource in edges.load_all()}  # whose bodies contain their modules
GATEWAY = Gateway("gw-1", "192.0.2.1", 4433, ssh_address="ssh.example.com:22")
REPORT = Report(7, "2026-01-01T00:00:00Z", "host")


@each_kind
@pytest.mark.parametrize("strict", ["false", "true"])
def test_every_method_of_every_kind(
    admin: Client, resource: Resource, strict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = Collection.of(admin, resource)
    monkeypatch.setenv("STRICT_REFERENCES", strict)
    id = collection.create()["id"]
    keys = newer.extend_all()
    for method, path, body in _writes(collection, id):
        answer = admin.send(method, path, body)
        assert answer.status in (200, 202, 204), answer.text
        assert newer.find_lost(keys) == {}, method
    collection.create()
    assert newer.find_lost(keys) == {}, "POST"
    if isinstance(resource, EditableResource):
        assert admin.delete(f"{collection.path}/{id}").status == 204
        assert newer.find_lost(keys) == {}, "DELETE"


def _writes(collection: Collection, id: str) -> list[tuple[str, str, Any]]:
    """Return the requests that change a resource: method, path and body."""
    ending = ("/offboard", "/identity")  # these end what they name
    endpoints = [
        endpoint
        for endpoint in collection.endpoints_of_one()
        if endpoint.method != "GET" and not endpoint.path.endswith(ending)
    ]
    other_endpoints = [endpoint for endpoint in endpoints if endpoint.path != collection.kind.item_path]
    bodies: Mapping[str, Any] = {"PATCH": _changes(collection), "POST": {}}
    item_endpoints = [
        endpoint for endpoint in endpoints if endpoint.method != "DELETE" and endpoint not in other_endpoints
    ]
    return [
        (endpoint.method, collection.address(endpoint, id), bodies.get(endpoint.method))
        for endpoint in (*item_endpoints, *other_endpoints)
    ]


def _changes(collection: Collection) -> dict[str, Any]:
    """Return a PATCH of the fields of the document's example, and of free texts."""
    example = examples.read()[collection.kind.noun].get("update", {})
    fields = names(collection.request("PATCH")) if example else frozenset()  # type: ignore[arg-type]  # it is hashable
    values = {"description": "changed", "metadata": "m", **example}
    return {name: fresh_value(collection.client, name, value) for name, value in values.items() if name in fields}


@pytest.mark.parametrize("module", EVERY_MODULE, ids=lambda module: module.path)
def test_every_module(admin: Client, module: Module) -> None:
    path, kind = _locate(admin, module)
    request = examples.read()[f"{kind.noun}_{module.name}"]["replace"]
    assert admin.put(path, request).status == 200
    keys = newer.extend_all()
    for enabled in (False, True):
        assert admin.put(path, {**request, "enabled": enabled}).status == 200
        assert newer.find_lost(keys) == {}
    if path != module.path:
        parent = path.rpartition("/")[0]
        assert admin.patch(parent, {module.name: request} if kind in HOLDERS else {"description": "d"}).status == 200
        assert newer.find_lost(keys) == {}
    assert admin.delete(path).status == 204
    assert newer.find_lost(keys) == {}


def _locate(admin: Client, module: Module) -> tuple[str, Kind]:
    """Return the path of a module on a new resource, and the kind of that; the account has its own."""
    resource = next((resource for resource in KINDS if resource.kind.item_path == module.home), None)
    if resource is None:
        return module.path, kinds.ACCOUNTS
    collection = Collection.of(admin, resource)
    return f"{collection.path}/{collection.create()['id']}/{module.name}", resource.kind


def test_every_switch_and_limit_of_the_operator(admin: Client) -> None:
    bot = admin.create("/bot_users", {"name": "b"})["id"]
    by_kind = {resource.kind: Collection.of(admin, resource) for resource in KINDS}
    suspended = [
        admin.account,
        *(by_kind[kind].create()["id"] for kind in (kinds.SSH_CREDENTIALS, kinds.SSH_USER_CERTIFICATES)),
    ]
    operator.main(["names", "ban", "phishing.tunnels.localhost"])
    operator.main(["networks", "block", "192.0.2.0/24"])
    keys = newer.extend_all()
    for command in (
        ["accounts", "limits", admin.account, "--only-reserved"],
        *(["accounts", verb, admin.account] for verb in ("disable", "enable")),
        *(["bots", verb, admin.account, bot] for verb in ("disable", "enable")),
        *(["suspend", id] for id in suspended),
        *(["resume", id] for id in suspended),
        ["names", "ban", "*.tunnels.localhost"],
        ["networks", "block", "192.0.2.0/24", "--reason", "again"],
        ["keys", "issue", admin.account, bot],
        ["migrate", "--apply"],
    ):
        operator.main(command)
        assert newer.find_lost(keys) == {}, command


@pytest.mark.parametrize("commit", ["44e6111", "d3f2e57"])
@pytest.mark.parametrize("number", ["", "2", "3"])
def test_every_migration(commit: str, number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store_records(commit)
    keys = newer.extend_all()
    monkeypatch.setenv("RECORD_FORMAT", number)
    operator.main(["migrate", "--apply"])
    assert newer.find_lost(keys) == {}


@pytest.mark.parametrize("result", [CheckResult("present"), CheckResult("absent")])
def test_checks_of_proofs(admin: Client, result: CheckResult) -> None:
    for domain in ("a.example.com", "b.example.com"):
        admin.create("/reserved_domains", {"domain": domain})
    keys = newer.extend_all()
    for due in proof_checks.find_due(clock.seconds(), 10):
        claimed = proof_checks.claim(due, until=clock.seconds() + 60)
        assert claimed
        assert newer.find_lost(keys) == {}
        assert proof_checks.record(claimed, apply_check(claimed.proof, result, clock.seconds()))
        assert newer.find_lost(keys) == {}


def test_an_edge_host() -> None:
    def write() -> None:
        edge_status.announce("host", ["*.example.com"], lease=60)
        edge_status.write("acct_1", "edghts_1", REPORT)
        edge_status.write_trial("acct_1", "edghts_1", REPORT)

    write()
    keys = newer.extend_all()
    write()
    assert newer.find_lost(keys) == {}


def test_a_gateway(admin: Client) -> None:
    gateways.announce(GATEWAY, lease=60)
    id = opening.open_agent_tunnel(admin.account)
    served = ServedTunnel(admin.account, id, "gw-1", opening.NAME, 0)
    usage.write(admin.account, "2026-11-22T14", "gw-1", Traffic(bytes_in=1))
    keys = newer.extend_all()
    for write in (
        lambda: gateways.renew(GATEWAY.id, lease=60),
        lambda: gateways.change(GATEWAY),
        lambda: tunnels.renew_lease(admin.account, id, lease=60),
        lambda: tunnels.record_refusal(served, "refused"),
        lambda: usage.write(admin.account, "2026-11-22T14", "gw-1", Traffic(bytes_in=2)),
        lambda: opening.open_agent_tunnel(admin.account, name=opening.OTHER),
        lambda: tunnels.close_tunnel(admin.account, id, usage=Traffic(bytes_in=2)),
    ):
        write()
        assert newer.find_lost(keys) == {}


def test_the_end_of_a_lease(admin: Client) -> None:
    opening.open_agent_tunnel(admin.account, lease=0)
    keys = newer.extend_all()
    assert online_tunnels.end_all_offline(admin.account) == []
    assert newer.find_lost(keys) == {}


def test_the_use_of_a_key(admin: Client) -> None:
    key = admin.create("/api_keys", {"scopes": ["edges:read"]})
    limited = admin.with_token(key["token"])
    assert limited.get("/bot_users").status == 403
    keys = newer.extend_all()
    assert limited.get("/edges/tcp").status == 200
    assert limited.get("/bot_users").status == 403
    assert newer.find_lost(keys) == {}
