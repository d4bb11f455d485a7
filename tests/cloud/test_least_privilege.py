"""The policies against the calls that are really made: none is missing, none is for nothing, and none allows more."""

import asyncio
import base64
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar

import pytest

from chalicelib import __main__ as operator
from chalicelib import clock, ids
from chalicelib.authorizer import authorize
from chalicelib.crypto import public_keys
from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import Report
from chalicelib.model.names import base_names, proof_checks, proofs, renewal_schedule, special_names
from chalicelib.model.names.proofs import CheckResult, ProofChange
from chalicelib.model.offboarding.tree_ends import Choice
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.sign_in import managed_apps
from chalicelib.model.sign_in.sessions import Session
from chalicelib.model.tls import challenge_records
from chalicelib.model.tunnels import gateways, online_tunnels, tunnels, usage
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import Traffic
from chalicelib.operator import owners, suspensions
from chalicelib.operator.accounts import create_account, list_accounts
from chalicelib.operator.keys import issue_key
from chalicelib.operator.names import ban_name
from chalicelib.storage import vault
from chalicelib.storage.client import aws, dynamodb
from chalicelib.storage.records import change_log, table, writes
from edge.control.names.name_resolver import NameResolver
from edge.process.settings import Settings
from edge.sign_in import sign_in_link
from edge.sign_in.passwords.password_checks import PasswordChecks, PasswordRequest
from edge.sign_in.provider.provider_client import Tokens
from edge.sign_in.sign_in_records import SignInRecords
from edge.store import control_records, gateway_records, grants, link_authority, threads
from edge.store import table as store
from edge.store.records import Grant, NameBanned, Opening
from tests import gateway, openssl
from tests.cloud import issuer_at_work, rights, weakened
from tests.cloud.evaluator import Call, Context, Statement, allows
from tests.cloud.rights import FUNCTION, INDEX, KEY, LOGS, NAME, RESTORED, TABLE
from tests.conftest import Account
from tests.gateway_leases import set_lease
from tests.modules.samples import OF_EDGES, SAMPLES, anywhere
from tests.samples import EDITABLE_KINDS, Collection, public_key
from tests.transports import Client, key_in

Calls = Mapping[str, Sequence[Call]]
P = ParamSpec("P")
R = TypeVar("R")
FROM_THE_FUNCTION: Context = {"lambda:SourceFunctionArn": FUNCTION}
ACCOUNT, OTHER_TABLE = "acct_a", TABLE.replace(NAME, "payroll")


@pytest.fixture(scope="module")
def calls(accounts: Mapping[str, Account]) -> Calls:
    """Return the calls of each role when it does everything that it is for."""
    calls: dict[str, list[Call]] = {"api": [], "authorizer": [], "edge": [], "sign-in": [], "operator": []}
    calls["issuer"] = []
    admin = accounts["test"].open()
    with rights.record_calls(lambda role, call: calls[role].append(call)):
        _use_the_api(gateway.client(admin.account, admin.user, admin=True))
        _authorize(admin)
        _work_as_an_edge(admin)
        account, _, token = create_account("issued", "admin")
        issuer_at_work.work(replace(admin.with_token(token), account=account.id))
        _operate(admin.account)
        asyncio.run(_sign_in_visitors(admin))
    return calls


def _use_the_api(admin: Client) -> None:
    for resource in EDITABLE_KINDS:
        them = Collection.of(admin, resource)
        record = them.create()
        admin.patch(f"{them.path}/{record['id']}", {"description": "changed"})
        admin.get(them.path)
        admin.delete(f"{them.path}/{record['id']}")
    for module in OF_EDGES:
        admin.put(anywhere(module), SAMPLES[module.path][0].request)
        admin.get(anywhere(module))
    admin.get("/gateways")
    bot = admin.create("/bot_users", {"name": "switched"})["id"]
    admin.create("/api_keys", {"owner_id": bot})
    admin.patch(f"/bot_users/{bot}", {"active": False})
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    admin.create("/ssh_user_certificates", {"ssh_certificate_authority_id": authority, "public_key": public_key()})
    for query in (f"resource_id={authority}", f"actor_id={admin.user}"):
        assert admin.get(f"/audit_events?{query}").status == 200


def _authorize(admin: Client) -> None:
    bot = owners.add_owner(admin.account, "bot", "robot", admin=False)
    _, token = issue_key(admin.account, bot.id, "")
    aws.client("dynamodb").update_item(  # as 1.x wrote it, which read the bot at each request
        TableName="tunnel-edge",
        Key={"scope": {"S": f"token#{key_in(token).removeprefix('ak_')}"}, "id": {"S": "claim"}},
        UpdateExpression="REMOVE #body.#active",
        ExpressionAttributeNames={"#body": "body", "#active": "active"},
    )
    headers = {"Authorization": f"Bearer {token}", "Service-Version": "2"}
    authorize(gateway.event("GET", "/api_keys", headers), None)


def _call(function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """Call a function as the edge does, so that its calls count as the edge's."""
    return threads.translate_errors(lambda: function(*arguments, **named))


def _work_as_an_edge(admin: Client) -> None:
    bot = owners.add_owner(admin.account, "bot", "machine", admin=False)
    host_pair = openssl.issue("/CN=a.tunnels.localhost", extensions=("subjectAltName=DNS:a.tunnels.localhost",))
    admin.create("/tls_certificates", host_pair.upload)
    base_names.forget_settings()  # which a process reads once
    edge = store.connect(Settings())
    link_authority.renew_sign_in_pair(link_authority.read_or_create())
    gateway_record = Gateway("gw-1", "192.0.2.1", 1)
    assert _call(gateways.announce, gateway_record, lease=60)
    assert _call(gateways.renew, "gw-1", lease=60)
    assert _call(gateways.change, replace(gateway_record, draining=True))
    clients = [
        grants.refresh(Grant(admin.account, admin.create("/ssh_credentials", body)["id"], ()))
        for body in ({"public_key": public_key()}, {"public_key": public_key(), "owner_id": bot.id})
    ]
    assert clients[0]
    grants.find_by_key("SHA256:unknown")
    _sign_in_with_a_certificate(admin)
    opening = Opening(clients[0], "gw-1", "ts_1", "192.0.2.9", "a.tunnels.localhost", "https://a.tunnels.localhost")
    for _ in range(2):  # the second time takes the name over
        tunnel = edge.open(opening, most=100)
    _open_a_port(admin, edge, clients[0])
    edge.is_reserved(admin.account, "a.tunnels.localhost")
    ban_name("banned.tunnels.localhost")
    with pytest.raises(NameBanned):
        edge.open(opening.with_name("banned.tunnels.localhost", ""), most=100)
    assert edge.find_unpermitted([(tunnel, opening)]) == _call(online_tunnels.find_missing, [tunnel]) == frozenset()
    _prove_as_an_edge(admin, edge)
    assert _call(change_log.read_since, 0)
    _call(gateways.list_gateways)
    _call(challenge_records.find, "app.example.com")
    control_records.read_sign_in()
    _call(online_tunnels.read_tunnels_of_gateway, "gw-1")
    _call(tunnels.record_refusal, tunnel, "refused")
    _call(tunnels.read_refusal, tunnel)
    control_records.read_blocks()
    _call(usage.write, admin.account, "2026-11-22T14", "gw-1", Traffic(1, 1, 1))
    _read_edges(admin)
    _load_names(admin, clients[0])
    _say_as_an_edge(admin)
    _take_from_a_dead_gateway(edge, opening.with_name("b.tunnels.localhost", "https://b.tunnels.localhost"))
    _call(tunnels.close_tunnel, tunnel.account, tunnel.id, usage=Traffic(1, 2, 3))
    gateway_records.withdraw_gateway("gw-1")


def _take_from_a_dead_gateway(edge: store.Store, opening: Opening) -> None:
    """Take a name from a gateway that died, and sweep another."""
    for id, skew in (("gw-3", 10), ("gw-4", 10)):
        assert _call(gateways.announce, Gateway(id, "192.0.2.3", 1), lease=60)
        tunnel = edge.open(replace(opening, gateway=id), most=100)
        set_lease(id, -skew)
        opening = replace(opening, grant=replace(opening.grant, credential="sshcr_other"))
    assert _call(gateways.fence, "gw-4")
    assert _call(gateways.claim_sweep, "gw-4", seconds=60)
    (gateway,) = (gateway for gateway in _call(gateways.list_gateways) if gateway.id == "gw-4")
    assert _call(online_tunnels.end_of_gateway, tunnel, gateway)
    for id in ("gw-3", "gw-4"):
        _call(gateways.remove, id)


def _load_names(admin: Client, grant: Grant) -> None:
    """Read what the names of edges, ports and tunnels use."""
    edge, resolver = store.connect(Settings()), NameResolver("tunnels.localhost")
    _call(gateways.announce, Gateway("gw-2", "192.0.2.2", 1), lease=60)
    address = admin.create("/reserved_addrs", {"proxy_protocol": True})["addr"]
    opening = Opening(grant, "gw-2", "ts_1", "192.0.2.9", "l.tunnels.localhost", "https://l.tunnels.localhost")
    port = edge.open(replace(opening, name=address, url=f"tcp://{address}", proto="tcp"), most=100)
    named_tunnel = edge.open(opening, most=100)
    assert resolver.find_account("l.tunnels.localhost") == admin.account
    assert resolver.find_account("x.example.org") == ""
    assert resolver.read(admin.account, "l.tunnels.localhost", None).tunnels.keys() == {named_tunnel.id}
    assert resolver.read_items(admin.account, [port.id], None).tunnels.keys() == {port.id}
    tcp = admin.create("/edges/tcp", {"hostports": [address]})["id"]
    assert resolver.read_items(admin.account, [tcp], None).edges.keys() == {tcp}
    resolver.refresh_gateways()
    for tunnel in (port, named_tunnel):
        _call(tunnels.close_tunnel, tunnel.account, tunnel.id, usage=Traffic(1, 2, 3))
    gateway_records.withdraw_gateway("gw-2")


def _read_records(account: str, id: str) -> AccountRecords:
    """Read what an edge or tunnel uses."""
    return NameResolver("tunnels.localhost").read_items(account, [id], None)


def _open_a_port(admin: Client, edge: store.Store, grant: Grant) -> None:
    reserved = admin.create("/reserved_addrs", {"proxy_protocol": True})["addr"]
    assert edge.wants_proxy_protocol(admin.account, reserved)
    assert not edge.wants_proxy_protocol(admin.account, "a.tunnels.localhost")
    assert _call(base_names.find_free_address, admin.account, [reserved]) is None
    policy_ids = (admin.create("/ip_policies", {})["id"],)
    opening = Opening(
        grant, "gw-1", "ts_1", "192.0.2.9", reserved, f"tcp://{reserved}", proto="tcp", ip_policies=policy_ids
    )
    tunnel = edge.open(opening, most=100)
    _call(online_tunnels.find_missing, [tunnel])
    _call(tunnels.close_tunnel, tunnel.account, tunnel.id, usage=Traffic(1, 2, 3))


def _read_edges(admin: Client) -> None:
    for kind in ("https", "tcp", "tls"):
        edge_record = admin.create(f"/edges/{kind}", {"hostports": [f"{kind}.example.com:443"]})
        assert _read_records(admin.account, edge_record["id"]).edges
    assert len(control_records.list_hosts(admin.account).hosts) >= 2
    entries = control_records.list_special_names()
    assert _call(special_names.read, [entry.owner for entry in entries]) == {entry.owner: entry for entry in entries}
    with pytest.MonkeyPatch.context() as setting:
        setting.setenv("RECORD_FORMAT", "2")  # its routes are read until all are converted
        edge_record = admin.create("/edges/https", {"hostports": ["moved.example.com:443"]})
        admin.create(f"/edges/https/{edge_record['id']}/routes", {"match_type": "exact_path", "match": "/"})
    assert _read_records(admin.account, edge_record["id"]).edges
    authority_pair = openssl.issue("/CN=clients", extensions=("basicConstraints=critical,CA:TRUE",))
    parts = [
        admin.create("/backends/http_response", {"status_code": 200}),
        admin.create("/backends/tunnel_group", {"labels": {"a": "b"}}),
        admin.create("/backends/weighted", {"backends": {}}),
        admin.create("/certificate_authorities", {"ca_pem": authority_pair.certificate}),
    ]
    weighted, authority = parts[2]["id"], parts[3]["id"]
    admin.patch(f"/backends/weighted/{weighted}", {"backends": {part["id"]: 1 for part in parts[:2]}})
    mutual = {"certificate_authority_ids": [authority]}
    policies = {"ip_policy_ids": [admin.create("/ip_policies", {})["id"]]}
    body = {"hostports": ["parts.example.com:443"], "mutual_tls": mutual, "ip_restriction": policies}
    shared = admin.create("/edges/https", body)["id"]
    route = {"match_type": "path_prefix", "match": "/", "backend": {"backend_id": weighted}}
    admin.create(f"/edges/https/{shared}/routes", route)
    records = _read_records(admin.account, shared)
    assert (len(records.backends), len(records.authorities)) == (3, 1)
    assert NameResolver("tunnels.localhost").key_pair(next(iter(records.certificates)), records)


def _say_as_an_edge(admin: Client) -> None:
    _call(edge_status.announce, "gone", lease=-60)
    for host in ("gone", "here"):
        _call(edge_status.write, admin.account, "edgtcp_1", Report(1, "2026-11-23T10:00:00Z", host))
    _call(edge_status.announce, "here", lease=60)
    assert _call(edge_status.list_hosts) == ["here"]
    _call(edge_status.write_trial, admin.account, "edgtcp_1", Report(1, "2026-11-23T10:00:00Z", "here"))
    _call(edge_status.remove_trial, admin.account, "edgtcp_1")
    assert len(_call(edge_status.read_statuses, "here")) == 1
    _call(edge_status.remove, admin.account, "edgtcp_1", "here")
    _call(edge_status.remove_expired_hosts, grace=0)
    assert (_call(edge_status.read_statuses, "here"), _call(edge_status.read_statuses, "gone")) == ({}, {})


def _prove_as_an_edge(admin: Client, edge: store.Store) -> None:
    stranger = create_account("stranger", "admin")[2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACME_DIRECTORY", "https://ca.example/directory")
        for client in (admin, admin.with_token(stranger)):
            policy = {"certificate_management_policy": {"authority": "letsencrypt"}}
            client.create("/reserved_domains", {"domain": "app.example.com", **policy})
    now = clock.seconds()
    _fail_and_issue(now)
    first, second = _call(proof_checks.find_due, now, 10)
    first = _call(proof_checks.claim, first, until=now) or first
    assert _call(proof_checks.record, first, proofs.apply_check(first.proof, CheckResult("present"), now))
    first = _call(proof_checks.find_proved, first.domain) or first
    step, is_lost = proofs.apply_contest(second.proof, first.proof, CheckResult("absent"), now)
    assert is_lost
    assert _call(proof_checks.record, second, step, (first, is_lost))
    second = _call(proof_checks.find_proved, second.domain) or second
    grant = Grant(second.account, "sshcr_1", ())
    tunnel = edge.open(Opening(grant, "gw-1", "ts_1", "192.0.2.9", second.domain), most=100)
    _call(tunnels.close_tunnel, tunnel.account, tunnel.id)
    assert NameResolver("tunnels.localhost").find_account(second.domain) == second.account
    wildcard = admin.create("/edges/https", {"hostports": ["*.example.com:443"]})["id"]
    assert _read_records(admin.account, wildcard).edges
    assert _call(proof_checks.record, second, ProofChange(replace(second.proof, status="lapsed"), "lapsed"))


def _fail_and_issue(now: int) -> None:
    """Make the jobs of all automatic certificates wait, and give their domains issued certificates."""
    for due in renewal_schedule.find_due(now, 10):
        claim = renewal_schedule.claim(due, now, now + 600)
        assert claim
        assert renewal_schedule.conclude(claim, replace(claim.entry.renewal, due_at=now + 9000), now)
        item = table.find(due.entry.scope, due.entry.reservation)
        assert item
        body = {**item.body, **dict.fromkeys(("certificate_id", "issued_certificate_id"), "cert_1")}
        writes.commit(writes.rewrite(item, replace(item, body=body, revision=item.revision + 1)))


def _sign_in_with_a_certificate(admin: Client) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})
    body = {"ssh_certificate_authority_id": authority["id"], "public_key": public_key()}
    certificate_id = admin.create("/ssh_user_certificates", body)["id"]
    fingerprint = public_keys.fingerprint(authority["public_key"])
    assert grants.find_by_certificate(fingerprint, certificate_id)
    assert grants.find_by_certificate(fingerprint, ids.new("sucrt")) is None  # which a shard may have


async def _check_passwords(admin: Client) -> None:
    reservation = admin.create("/reserved_domains", {"domain": "held.example.com"})["id"]
    credentials = [{"username": "ada", "password": "correct horse"}]
    admin.put(f"/reserved_domains/{reservation}/basic_auth", {"credentials": credentials})
    vault._opened.clear()
    authorization = f"Basic {base64.b64encode(b'ada:correct horse').decode()}"
    request = PasswordRequest(admin.account, "", reservation, "", "192.0.2.1", authorization)
    assert (await PasswordChecks().check(request)).status == 200


async def _sign_in_visitors(admin: Client) -> None:
    cache = vault._opened  # which has what the API sealed in this process
    edge = admin.create("/edges/https", {"hostports": ["oauth.tunnels.localhost:443"]})["id"]
    route = admin.create(f"/edges/https/{edge}/routes", {"match_type": "path_prefix", "match": "/"})["id"]
    providers = {"github": {"client_id": "id", "client_secret": "secret"}}
    admin.put(f"/edges/https/{edge}/routes/{route}/oauth", {"provider": providers})
    managed_apps.set_app("gitlab", "id", "secret")
    records = SignInRecords()
    await records.refresh()
    rule = await records.current_rule(admin.account, edge, route)
    assert rule
    await records.routes(admin.account, edge)
    with pytest.MonkeyPatch.context() as setting:
        setting.setenv("RECORD_FORMAT", "2")  # its routes are read until all are converted
        old = admin.create("/edges/https", {"hostports": ["old.tunnels.localhost:443"]})["id"]
        stored = admin.create(f"/edges/https/{old}/routes", {"match_type": "path_prefix", "match": "/"})["id"]
    assert await records.current_rule(admin.account, old, stored) is None
    assert await records.routes(admin.account, old)
    cache.clear()
    assert sign_in_link.read_changed(None)
    await _check_passwords(admin)
    assert await records.application(rule)
    assert await records.application(replace(rule, client_id="", provider="gitlab"))
    for error in ("application", ""):
        await records.report_application(rule, error)
    session = Session(
        account=admin.account,
        edge=edge,
        route=route,
        provider="github",
        client_id="id",
        cookie_prefix=rule.cookie_prefix,
        subject="1",
        signed_in_at=clock.seconds(),
        seen_at=0,
        checked_at=0,
    )
    await records.start_session("secret", session, Tokens("access"), rule)
    stored_session = await records.session("secret")
    assert stored_session
    await records.begin_check("secret", 1, lasting=1)
    await records.delay_check("secret", 1)
    await records.tokens(stored_session)
    await records.renew_session("secret", replace(stored_session, checked_at=1), Tokens("access"), stored_session)
    await records.record_seen("secret", 1)
    await records.end_session("secret")


def _operate(account: str) -> None:
    idle = owners.add_owner(account, "bot", "idle", admin=False).id
    issue_key(account, idle, "")
    next(suspensions.offboard_id(account, idle, Choice("keep", "revoke")))
    for words in (
        ["accounts", "list"],
        ["bots", "disable", account, idle],
        ["migrate", "--apply"],
        ["names", "allow", "banned.tunnels.localhost"],
        ["oauth-apps", "list"],
    ):
        operator.main(words)
    with pytest.MonkeyPatch.context() as terminal:
        terminal.setattr("sys.stdin", io.StringIO("secret\n"))
        operator.main(["oauth-apps", "set", "github", "--client-id", "id"])
        operator.main(["secrets", "rewrap", "--key", vault.key_id()])
    with pytest.raises(SystemExit):
        operator.main(["tunnels", "who", "nobodys.example.com"])
    with dynamodb.use_table("tunnel-edge-restored"), pytest.raises(aws.AwsError):
        list_accounts()


def of_data(action: str, resource: str = TABLE, *keys: str, more: Context | None = None) -> Call:
    context: Context = {"dynamodb:LeadingKeys": keys} if keys else {}
    return Call(f"dynamodb:{action}", resource, {**context, **(more or {})})


def of_key(
    action: str,
    encryption_context: Mapping[str, str],
    *,
    key: str = KEY,
    alias: str = NAME,
    more: Context | None = None,
) -> Call:
    """Return a call of a key with an encryption context."""
    context = {f"kms:EncryptionContext:{name}": value for name, value in encryption_context.items()}
    keys = {"kms:EncryptionContextKeys": tuple(encryption_context)} if encryption_context else {}
    return Call(f"kms:{action}", key, {**context, **keys, "kms:ResourceAliases": (f"alias/{alias}",), **(more or {})})


OTHER_KEY = KEY.replace("123456789012", "210987654321")
LOG_CALLS = [
    Call(f"logs:{operation}", f"{LOGS}:log-stream:x") for operation in ("CreateLogStream", "PutLogEvents")
]  # by the platform
TRACED = [
    Call(f"xray:{operation}", "*") for operation in ("PutTelemetryRecords", "PutTraceSegments")
]  # by the platform
NOT_LOGS = [
    *(
        Call("logs:DeleteLogGroup", f"{LOGS.replace('APIHandler', function)}:x")
        for function in ("APIHandler", "Authorizer")
    ),
    Call("logs:PutLogEvents", f"{LOGS.replace(NAME, 'payroll')}:x"),
]
RESOURCE, CERTIFICATE = ({"account": ACCOUNT, "resource": id} for id in ("sshca_a", "cert_a"))
HOP, _LINK = ({"account": "edge", "resource": resource} for resource in ("hop", "sign-in-link"))
_OPERATORS, _ACME = ({"account": "edge", "resource": resource} for resource in ("certificate", "acme"))
OF_THE_API = [
    of_data("Scan"),
    of_data("Scan", INDEX),
    of_data("Query", f"{TABLE}/index/another", "x"),
    *(of_data(action, OTHER_TABLE, "x") for action in ("GetItem", "Query")),
    of_key("Decrypt", RESOURCE, key=OTHER_KEY),
    of_key("Decrypt", {**RESOURCE, "purpose": "any"}),
    of_key("CreateGrant", RESOURCE),
    *NOT_LOGS,
]
OF_THE_AUTHORIZER = [
    *(
        of_data("GetItem", TABLE, key)
        for key in ("accounts", f"{ACCOUNT}#/api_keys", f"{ACCOUNT}#/users", "public_key#x")
    ),
    of_data("PutItem", TABLE, "token#x"),
    of_data("GetItem", OTHER_TABLE, "token#x"),
    of_key("Decrypt", RESOURCE),
    *NOT_LOGS,
]
_LISTS = [f"{ACCOUNT}#/{path}" for path in ("api_keys", "ssh_certificate_authorities", "audit_events")]
_ROUTES = f"{ACCOUNT}#/edges/https/e/routes"
_OF_EDGES = [f"{ACCOUNT}#/{path}" for path in ("edges/https", "backends/weighted", "certificate_authorities")]
_NEVER = [
    *_LISTS,
    "token#x",
    "account_name#x",
    "edge#/anything",
]  # which the edge neither reads nor writes
_READ_ONLY = [
    "accounts",
    f"{ACCOUNT}#/reserved_addrs",
    f"{ACCOUNT}#/ssh_credentials",
    f"{ACCOUNT}#/tls_certificates",
    "public_key#x",
    "edge#/banned_names",
]
_WRITES = ("PutItem", "UpdateItem", "DeleteItem")
WRITES = [f"dynamodb:{operation}" for operation in _WRITES]
_LISTED_EDGES = [f"{ACCOUNT}#/edges/{kind}" for kind in ("https", "tls")]  # below a special wildcard of their account
OF_THE_EDGE = [
    *(of_data(action, TABLE, key) for action in ("GetItem", "Query", *_WRITES) for key in _NEVER),
    *(of_data(action, TABLE, key) for action in _WRITES for key in (*_READ_ONLY, *_OF_EDGES, _ROUTES, "edge#/edges/0")),
    *(of_data(action, TABLE, key) for action in ("GetItem", "BatchGetItem") for key in (_ROUTES, "edge#/edges/0")),
    *(of_data("Query", TABLE, key) for key in _OF_EDGES if key not in _LISTED_EDGES),
    *(of_data("GetItem", TABLE, key) for key in _OF_EDGES[1:]),
    *(of_data("GetItem", TABLE, f"edge#/hosts{of}") for of in ("", "/h/statuses")),
    *(
        of_data(operation, TABLE, f"{ACCOUNT}#/audit_events/edge")
        for operation in ("GetItem", "Query", "UpdateItem", "DeleteItem")
    ),
    *(
        of_data(operation, TABLE, f"edge#/{name}")
        for name in ("authorities", "settings")
        for operation in ("UpdateItem", "DeleteItem")
    ),
    *(of_data("ConditionCheckItem", TABLE, key) for key in (*_NEVER, "tunnel_name#x")),
    *(of_data(action, TABLE, "hostports#x") for action in ("GetItem", "Query", *_WRITES)),
    of_data("ConditionCheckItem", TABLE),
    *(of_data("BatchGetItem", TABLE, key) for key in (*_NEVER, *_READ_ONLY[2:])),
    *(of_data("Query", TABLE, key) for key in (f"{ACCOUNT}#/reserved_domains", "domain#x", "tunnel_name#x")),
    *(of_data(operation, TABLE, f"{ACCOUNT}#/reserved_domains") for operation in ("PutItem", "DeleteItem")),
    of_data("BatchGetItem", TABLE),
    of_data("BatchGetItem", OTHER_TABLE, f"{ACCOUNT}#/reserved_domains"),
    of_data("UpdateItem", TABLE, "edge#/looks"),
    of_data("UpdateItem", TABLE, "domain#x"),
    of_data("ConditionCheckItem", OTHER_TABLE, "hostports#x"),
    of_data("PutItem", TABLE, "edge#/gateways"),
    *(of_data(operation, TABLE, "changes#0") for operation in ("GetItem", "UpdateItem", "DeleteItem")),
    *(of_data(action) for action in ("GetItem", "Query", "Scan", *_WRITES)),  # by no key
    *(
        of_data(action, OTHER_TABLE, f"{ACCOUNT}#/tunnels")
        for action in ("GetItem", "Query", "UpdateItem", "DeleteItem")
    ),
    of_data("PutItem", OTHER_TABLE, f"{ACCOUNT}#/tunnels"),
    of_data("Query", INDEX, f"{ACCOUNT}#tn_a"),
    *(
        of_key("Decrypt", {"account": ACCOUNT, "resource": resource})
        for resource in ("sshca_a", "edghtsrt_a", "session", "hop")
    ),
    *(
        of_key("Decrypt", {"account": "edge", "resource": resource})
        for resource in ("cert_a", "oauth_apps", "sign-in", "another")
    ),
    *(of_key("Decrypt", {**context, "purpose": "any"}) for context in (CERTIFICATE, HOP, _OPERATORS)),
    *(of_key("Decrypt", context, key=OTHER_KEY) for context in (CERTIFICATE, HOP, _OPERATORS)),
    *(of_key("CreateGrant", context) for context in (CERTIFICATE, HOP, _LINK, _OPERATORS)),
    of_key("Decrypt", _LINK),
    *(of_key("Encrypt", context) for context in ({**_LINK, "purpose": "any"}, {**_LINK, "account": ACCOUNT})),
    of_key("Encrypt", _LINK, key=OTHER_KEY),
    of_key("Decrypt", {**_OPERATORS, "account": ACCOUNT}),
    of_key("Encrypt", _OPERATORS),
    of_key("Encrypt", CERTIFICATE),
    of_key("Decrypt", {}),
]
_BY_ACTOR = f"{TABLE}/index/by-actor"
_APPS, _ITS_KEYS = ({"account": "edge", "resource": resource} for resource in ("oauth_apps", "sign-in"))
_TOKENS, _SECRET, _PASSWORDS = (
    {"account": ACCOUNT, "resource": resource} for resource in ("session", "edghtsrt_a", "rd_a/basic_auth")
)
_DECRYPTED_CONTEXTS = (_APPS, _ITS_KEYS, _LINK, _TOKENS, _SECRET, _PASSWORDS)
OF_THE_SIGN_IN_SERVICE = [
    *(of_data(action, TABLE, key) for action in ("GetItem", "Query", *_WRITES) for key in _NEVER),
    *(
        of_data(operation, TABLE, key)
        for operation in _WRITES
        for key in (_ROUTES, f"{ACCOUNT}#/edges/https", "edge#/oauth_apps")
    ),
    *(of_data(operation, TABLE, f"{ACCOUNT}#/reserved_domains") for operation in ("Query", *_WRITES)),
    *(of_data(operation, TABLE, "sign_in_keys") for operation in ("UpdateItem", "DeleteItem")),
    *(
        of_data(operation, TABLE, key)
        for operation in ("GetItem", "Query")
        for key in (f"{ACCOUNT}#/tunnels", "changes#0")
    ),
    *(of_data("Query", TABLE, key) for key in ("session#x", f"{ACCOUNT}#/edges/https")),
    *(of_data("GetItem", TABLE, key) for key in ("edge#/oauth_apps", "sign_in_keys")),
    *(of_data(operation, OTHER_TABLE, "session#x") for operation in ("GetItem", *_WRITES)),
    of_data("Query", OTHER_TABLE, "sign_in_keys"),
    *(of_data(operation) for operation in ("GetItem", "Query", "Scan", *_WRITES)),
    *(of_key("Decrypt", context) for context in (CERTIFICATE, RESOURCE, HOP, {})),
    *(
        of_key("Decrypt", {"account": "edge", "resource": resource})
        for resource in ("edghtsrt_a", "rd_a/basic_auth", "session", "another")
    ),
    *(
        of_key("Decrypt", {"account": ACCOUNT, "resource": resource})
        for resource in ("oauth_apps", "sign-in", "sign-in-link", "rd_a")
    ),
    *(of_key("Decrypt", {**context, "purpose": "any"}) for context in _DECRYPTED_CONTEXTS),
    *(of_key("Decrypt", context, key=OTHER_KEY) for context in _DECRYPTED_CONTEXTS),
    *(of_key("CreateGrant", context) for context in _DECRYPTED_CONTEXTS),
    *(of_key("Encrypt", context) for context in (_APPS, _LINK, _SECRET, _PASSWORDS)),
    *(of_data(operation, TABLE, "edge#/authorities") for operation in ("Query", *_WRITES)),
    of_data("GetItem", OTHER_TABLE, "edge#/authorities"),
]
_OF_ISSUER = [f"{ACCOUNT}#/reserved_domains", f"{ACCOUNT}#/tls_certificates", "edge#/certificate", "edge#/acme/x"]
OF_THE_ISSUER = [
    *(
        of_data(operation, TABLE, key)
        for operation in ("GetItem", "BatchGetItem", "Query", *_WRITES)
        for key in (*_NEVER, _ROUTES)
    ),
    *(of_data(operation, TABLE, f"{ACCOUNT}#/tunnels") for operation in ("GetItem", "BatchGetItem", "Query", *_WRITES)),
    *(of_data(operation, OTHER_TABLE, key) for operation in ("GetItem", *_WRITES) for key in _OF_ISSUER),
    *(of_data(operation, OTHER_TABLE, "edge#/renewals") for operation in ("Query", "PutItem", "DeleteItem")),
    *(of_data(operation, OTHER_TABLE, "edge#/order_times") for operation in ("BatchGetItem", "UpdateItem")),
    *(
        of_data(operation, TABLE, f"{ACCOUNT}#/audit_events/edge")
        for operation in ("GetItem", "Query", "UpdateItem", "DeleteItem")
    ),
    *(of_data(operation, TABLE, "accounts") for operation in ("Query", "BatchGetItem", *_WRITES)),
    *(of_data(operation, TABLE, f"{ACCOUNT}#/reserved_domains") for operation in ("Query", "PutItem", "DeleteItem")),
    *(
        of_data(operation, TABLE, f"{ACCOUNT}#/tls_certificates")
        for operation in ("Query", "BatchGetItem", "UpdateItem")
    ),
    *(of_data(operation, TABLE, "edge#/acme/x") for operation in ("Query", "DeleteItem")),
    *(of_data(operation) for operation in ("GetItem", "BatchGetItem", "Query", "Scan", *_WRITES)),
    *(of_key("Decrypt", context) for context in (CERTIFICATE, RESOURCE, HOP, _OPERATORS, {})),
    *(of_key(operation, {**_ACME, "purpose": "any"}) for operation in ("Encrypt", "Decrypt")),
    *(of_key(operation, _ACME, key=OTHER_KEY) for operation in ("Encrypt", "Decrypt")),
    *(of_key("Encrypt", {**context, "purpose": "any"}) for context in (CERTIFICATE, _OPERATORS)),
    *(of_key("Encrypt", context, key=OTHER_KEY) for context in (CERTIFICATE, _OPERATORS)),
    *(of_key("CreateGrant", context) for context in (CERTIFICATE, _OPERATORS, _ACME)),
    *(
        of_key("Encrypt", context)
        for context in (RESOURCE, HOP, _TOKENS, {"account": "edge", "resource": "cert_a"}, {})
    ),
    *(of_key(action, {**_ACME, "account": ACCOUNT}) for action in ("Encrypt", "Decrypt")),
    of_key("Encrypt", {**_OPERATORS, "account": ACCOUNT}),
    of_data("UpdateItem", TABLE, "edge#/renewals"),
]
_REENCRYPTIONS = ("ReEncryptFrom", "ReEncryptTo")
OF_THE_OPERATOR = [
    of_data("DeleteTable"),
    of_data("GetItem", OTHER_TABLE, "x"),
    of_data("Scan", _BY_ACTOR),
    of_data("Query", INDEX, "x"),
    *(of_key("Decrypt", context) for context in (RESOURCE, _APPS)),
    *(
        of_key("Encrypt", context)
        for context in (RESOURCE, _ITS_KEYS, {**_APPS, "account": ACCOUNT}, {**_APPS, "purpose": "any"})
    ),
    *(of_key("Encrypt", {name: value}) for name, value in _APPS.items()),
    of_key("Encrypt", _APPS, key=OTHER_KEY),
    of_key("Encrypt", _APPS, alias="payroll"),
    of_key("CreateGrant", _APPS),
    *(of_key(operation, {**RESOURCE, "purpose": "any"}) for operation in _REENCRYPTIONS),
    *(of_key(operation, RESOURCE, key=OTHER_KEY) for operation in _REENCRYPTIONS),
    *(of_key(operation, RESOURCE, alias="payroll") for operation in _REENCRYPTIONS),
]
_VIA_THE_TABLE = {"kms:ViaService": "dynamodb.us-east-1.amazonaws.com"}
_BY_THE_TABLE = of_key("Decrypt", {}, more=_VIA_THE_TABLE)  # for a request of a function
_STOLEN = {"lambda:SourceFunctionArn": FUNCTION.replace(NAME, "payroll")}
OF_THE_BOUNDARY = [
    Call("xray:GetTraceSummaries", "*"),
    *(
        of_data(action, resource, "x", more=FROM_THE_FUNCTION)
        for action, resource in (("GetItem", OTHER_TABLE), ("PutItem", INDEX))
    ),
    of_data("Query", OTHER_TABLE, "x", more=FROM_THE_FUNCTION),
    of_data("Scan", more=FROM_THE_FUNCTION),
    *(of_data("Query", resource, "x", more=conditions) for resource in (TABLE, INDEX) for conditions in ({}, _STOLEN)),
    *(of_key("Decrypt", RESOURCE, more=conditions) for conditions in ({}, _STOLEN)),
    of_key("Decrypt", RESOURCE, alias="payroll", more=FROM_THE_FUNCTION),
    of_key("Decrypt", RESOURCE, key=OTHER_KEY, more=FROM_THE_FUNCTION),
    of_key("Decrypt", {**RESOURCE, "purpose": "any"}, more=FROM_THE_FUNCTION),
    of_key("Decrypt", {}, more=FROM_THE_FUNCTION),
    of_key("Decrypt", {"account": ACCOUNT}, more=FROM_THE_FUNCTION),
    of_key("Decrypt", HOP, more=FROM_THE_FUNCTION),
    of_key("CreateGrant", RESOURCE, more=FROM_THE_FUNCTION),
    of_key("CreateGrant", {}, more=_VIA_THE_TABLE),
    of_key("Decrypt", {}, key=OTHER_KEY, more=_VIA_THE_TABLE),
    *NOT_LOGS,
]


@dataclass(frozen=True)
class PolicyCase:
    """A policy, or the boundary: what must be allowed by it, and what must not."""

    policy: tuple[Statement, ...]
    needed: Sequence[Call]
    forbidden: Sequence[Call]


def build_case(name: str, calls: Calls) -> PolicyCase:
    if name == "boundary":
        of_functions = [*calls["api"], *calls["authorizer"]]
        restored = [replace(call, resource=call.resource.replace(TABLE, RESTORED)) for call in of_functions]
        second = [_with_second_key(call) for call in of_functions if call.action.startswith("kms:")]
        needed = [*of_functions, *restored, *second, *LOG_CALLS, *TRACED, _BY_THE_TABLE]
        return PolicyCase(rights.boundary(), needed, OF_THE_BOUNDARY)
    forbidden = {"api": OF_THE_API, "authorizer": OF_THE_AUTHORIZER, "edge": OF_THE_EDGE, "operator": OF_THE_OPERATOR}
    forbidden |= {"issuer": OF_THE_ISSUER, "sign-in": OF_THE_SIGN_IN_SERVICE}
    log_calls = [
        replace(call, resource=call.resource.replace("APIHandler", FUNCTIONS[name]))
        for call in LOG_CALLS
        if name in FUNCTIONS
    ]
    return PolicyCase(rights.roles()[name].policy, [*calls[name], *log_calls], forbidden[name])


def _with_second_key(call: Call) -> Call:
    """Return a call with the key under which secrets are sealed again."""
    return replace(call, context={**call.context, "kms:ResourceAliases": (f"alias/{NAME}-2",)})


# Gateways of the previous version renew the leases of their tunnels, also beside gateways of this version.
OF_EARLIER_GATEWAYS = "Changes lacks acct_*#/tunnels of dynamodb:LeadingKeys"
FUNCTIONS = {"api": "APIHandler", "authorizer": "Authorizer"}
_POLICIES = ["api", "authorizer", "edge", "issuer", "sign-in", "operator", "boundary"]
each_policy = pytest.mark.parametrize("name", _POLICIES)


def filter_allowed(calls: Sequence[Call], policy: Sequence[Statement]) -> list[Call]:
    return [call for call in calls if allows(call, policy)]


@each_policy
def test_a_policy_allows_what_is_called_and_nothing_that_must_never_be(calls: Calls, name: str) -> None:
    case = build_case(name, calls)
    assert [call for call in case.needed if not allows(call, case.policy)] == []
    assert filter_allowed(case.forbidden, case.policy) == []


@each_policy
def test_nothing_is_allowed_that_no_call_needs(calls: Calls, name: str) -> None:
    case = build_case(name, calls)
    unneeded = [
        weakness
        for weakness, less in weakened.with_less(case.policy)
        if all(allows(call, less) for call in case.needed)
    ]
    assert [weakness for weakness in unneeded if weakness != OF_EARLIER_GATEWAYS] == [], "\n".join(unneeded)


@each_policy
def test_no_limit_can_be_taken_away_unseen(calls: Calls, name: str) -> None:
    case = build_case(name, calls)
    assert [
        weakness
        for weakness, more in weakened.with_more(case.policy)
        if not any(allows(call, more) for call in case.forbidden)
    ] == []


def test_only_the_sign_in_service_opens_client_secrets_and_it_writes_only_sessions_keys_and_results(
    calls: Calls,
) -> None:
    """Of all secrets and records that any role uses."""
    all_calls = [call for of_role in calls.values() for call in of_role]
    secrets = {(context["account"], context["resource"]) for context in map(_encryption_context, all_calls) if context}
    keys = {key for call in all_calls if call.action in WRITES for key in call.context.get("dynamodb:LeadingKeys", ())}

    def list_decrypted(role: str) -> set[str]:
        may = rights.roles()[role].may
        resources = [
            resource
            for account, resource in secrets
            if may(of_key("Decrypt", {"account": account, "resource": resource}))
        ]
        return {resource.split("_")[0] for resource in resources}

    def list_written(role: str) -> set[str]:
        may = rights.roles()[role].may
        leading_keys = [
            key for key in keys if any(may(of_data(action.partition(":")[2], TABLE, key)) for action in WRITES)
        ]
        return {re.sub(r"^acct_\w+|(?<=^session#).+", "", key) for key in leading_keys}

    assert {"edghtsrt", "cert"} <= {resource.split("_")[0] for _, resource in secrets}
    assert "edghtsrt" not in list_decrypted("edge")
    assert list_decrypted("sign-in") == {"edghtsrt", "rd", "oauth", "session", "sign-in", "sign-in-link"}
    assert list_written("sign-in") == {"session#", "sign_in_keys", "#/oauth_errors"}


def _encryption_context(call: Call) -> dict[str, str]:
    prefix = "kms:EncryptionContext:"
    return {name.removeprefix(prefix): str(value) for name, value in call.context.items() if name.startswith(prefix)}
