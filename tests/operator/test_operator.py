"""The operator's entrance, `python -m chalicelib`: what each command prints, does and refuses."""

import json
import os
import re
import socket
import subprocess
import sys
from datetime import timedelta

import pytest
from samtranslator.yaml_helper import yaml_parse

from app import app
from chalicelib import clock, ids
from chalicelib.__main__ import main
from chalicelib.crypto import public_keys
from chalicelib.http.middleware import ANY_METHOD
from chalicelib.model.audit.reading import page
from chalicelib.model.ssh import credentials, revoked
from chalicelib.operator import tunnels
from chalicelib.storage.client import aws
from infra.deploy import data_stack
from tests.conftest import ROOT, free_port
from tests.operator.commands import TOKEN, Output, refused, said
from tests.samples import public_key
from tests.transports import Client, InProcess
from tests.tunnels import opened


def created(output: Output, *arguments: str) -> tuple[str, str, str]:
    """Return a fresh account: its id, its admin's, and the admin's token."""
    account, admin, token = said(output, "accounts", "create", *(arguments or (ids.new("acme"),)))
    return account.removeprefix("account "), admin.removeprefix("admin "), token.removeprefix("token ")


def bearer(transport: InProcess, token: str) -> Client:
    return Client(transport).with_token(token)


def everything_stored() -> str:
    return json.dumps(aws.client("dynamodb").scan(TableName="tunnel-edge")["Items"], default=repr)


def test_a_user_who_owns_a_key_is_not_deleted(admin: Client, member: Client, capsys: Output) -> None:
    key = f"ak_{member.token[3:30]}"
    sentence = f"The user {member.user} owns 1 keys and credentials, for example {key}."
    assert refused("users", "delete", admin.account, member.user) == sentence
    assert member.get("/api_keys").status == 200
    said(capsys, "keys", "revoke", admin.account, key)
    said(capsys, "users", "delete", admin.account, member.user)
    assert admin.get(f"/users/{member.user}").status == 404


def test_a_new_account_has_an_admin_whose_token_is_printed_once_and_lets_in(
    transport: InProcess, capsys: Output
) -> None:
    lines = said(capsys, "accounts", "create", "acme", "--admin", "alice")
    form = re.fullmatch(rf"account (acct_\w{{27}})\nadmin (usr_\w{{27}})\ntoken ({TOKEN})", "\n".join(lines))
    assert form
    keys = bearer(transport, form[3]).get("/api_keys").json["keys"]
    assert [(key["owner_id"], key["description"]) for key in keys] == [(form[2], "The account's first key")]
    assert form[3] not in everything_stored()


def test_accounts_are_listed_with_their_users_and_bots(capsys: Output) -> None:
    assert said(capsys, "accounts", "list") == []
    acme, alice, _ = created(capsys, "acme", "--admin", "alice")
    other, admin, _ = created(capsys, "Ünï Corp")
    (bob,) = said(capsys, "users", "add", acme, "bob")
    (robot,) = said(capsys, "bots", "add", acme, "robot", "--admin")
    assert said(capsys, "accounts", "list") == [
        f"{acme} acme",
        f"  {alice} alice (admin)",
        f"  {bob} bob",
        f"  {robot} robot (admin)",
        f"{other} Ünï Corp",
        f"  {admin} admin (admin)",
    ]


@pytest.mark.parametrize(("kind", "prefix"), [("users", "usr"), ("bots", "bot")])
def test_a_user_or_bot_gets_a_key_and_has_the_rights_it_was_given(
    transport: InProcess, capsys: Output, kind: str, prefix: str
) -> None:
    account, admin, _ = created(capsys)
    for rights, status in (((), 403), (("--admin",), 201)):
        (owner,) = said(capsys, kind, "add", account, f"robot{status}", *rights)
        assert ids.is_id(owner, prefix)
        key, token = said(capsys, "keys", "issue", account, owner, "--description", "ci")
        client = bearer(transport, token.removeprefix("token "))
        response = client.get(f"/api_keys/{key.removeprefix('key ')}").json
        assert (response["owner_id"], response["description"]) == (owner, "ci")
        assert client.post("/api_keys", {"owner_id": admin}).status == status


def test_an_issued_token_is_not_stored(capsys: Output) -> None:
    account, admin, _ = created(capsys)
    _, token = said(capsys, "keys", "issue", account, admin)
    assert token.removeprefix("token ")[31:] not in everything_stored()


def test_routes_are_all_that_the_app_serves(capsys: Output) -> None:
    served = {
        f"{method:6} {path}" for path, methods in app.routes.items() for method in methods if method != ANY_METHOD
    }
    lines = said(capsys, "routes")
    assert {*lines} == served
    assert len(lines) == len(served)
    assert {"GET    /api_keys", "PATCH  /ssh_certificate_authorities/{id}"} <= served


def test_a_key_that_the_operator_makes_has_the_end_and_the_scopes_that_are_asked_for(
    transport: InProcess, capsys: Output
) -> None:
    limits = ("--expires-in", "90d", "--scope", "users:read", "--scope", "api_keys:write")
    account, admin, token = created(capsys, ids.new("acme"), *limits)
    for made in (token, said(capsys, "keys", "issue", account, admin, *limits)[1].removeprefix("token ")):
        key = bearer(transport, made).get("/api_keys/self").json
        assert key["scopes"] == ["users:read", "api_keys:write"]
        lives = clock.parse(key["expires_at"]) - clock.parse(key["created_at"])
        assert abs(lives - timedelta(days=90)) <= timedelta(seconds=5)
        assert bearer(transport, made).get("/users").status == 200
        assert bearer(transport, made).get("/tunnels").status == 403


def test_limits_that_no_key_can_have_are_refused(capsys: Output) -> None:
    account, admin, _ = created(capsys)
    forms = "'*', '*:read', <collection>:<right> or <collection>:<right>@<id>"
    rule = f"must be {forms}, for example edges:read; the rights are read, write, create and revoke"
    assert refused("keys", "issue", account, admin, "--scope", "all") == f"The scopes.0 {rule}."
    for time in ("", "0", "-1d", "soon", "1y", "9999999w"):
        assert refused("keys", "issue", account, admin, f"--expires-in={time}") == 2
        assert "argument --expires-in: invalid duration value" in capsys.readouterr().err


@pytest.mark.parametrize("command", [(), ("keys",), ("keys", "issue")], ids=" ".join)
def test_every_command_explains_itself(capsys: Output, command: tuple[str, ...]) -> None:
    assert refused(*command, "--help") == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: python -m chalicelib {' '.join(command)}".rstrip())
    assert len(out.splitlines()) >= 5


def test_the_version_is_that_of_the_newest_release(capsys: Output) -> None:
    assert refused("--version") == 0
    version = capsys.readouterr().out.removeprefix("tunnel-edge ").strip()
    newest = next(line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## "))
    assert re.fullmatch(rf"## (Unreleased|{re.escape(version)}\b.*)", newest)


def test_the_beginning_of_an_option_stands_for_it_unless_another_begins_like_it(capsys: Output) -> None:
    assert said(capsys, "accounts", "create", "acme", "--adm", "alice", "--exp=90d")
    assert [json.loads(line)["name"] for line in said(capsys, "accounts", "list", "--js")] == ["acme"]
    assert refused("names", "forget-settings", "--") == "This table has no TUNNEL_DOMAIN yet: nothing was changed."
    for option in ("--no-admin", "-adm", "--e-x"):
        assert refused("accounts", "create", "other", option, "alice") == 2
        assert "error: No such option" in capsys.readouterr().err


def test_an_account_is_limited_only_with_a_choice(capsys: Output) -> None:
    account, _, _ = created(capsys)
    assert refused("accounts", "limits", account) == 2
    assert "--only-reserved" in capsys.readouterr().err
    for option, limited in (("--only-reserved", True), ("--no-only-reserved", False)):
        assert said(capsys, "accounts", "limits", account, option) == []
        assert json.loads(said(capsys, "accounts", "list", "--json")[0])["only_reserved"] is limited


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("acc", {"accounts"}),
        ("keys ", {"issue", "list", "revoke"}),
        ("keys issue acct_1 usr_1 --exp", {"--expires-in"}),
    ],
)
def test_a_shell_completes_commands_and_options(words: str, completed: set[str]) -> None:
    count = str(len(words.split(" ")))
    completion = {"_CHALICELIB_COMPLETE": "bash_complete", "COMP_WORDS": f"chalicelib {words}", "COMP_CWORD": count}
    command, environment = [sys.executable, "-m", "chalicelib"], {**os.environ, **completion}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30)
    assert {line.removeprefix("plain,") for line in done.stdout.splitlines()} == completed


def test_a_pipe_that_is_closed_early_is_no_error() -> None:
    command = f"{sys.executable} -m chalicelib routes --json | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 1)


def test_an_unknown_account_is_one_sentence(capsys: Output) -> None:
    for id in (ids.new("acct"), "nonsense", ""):
        sentence = f"There is no account {id}."
        assert refused("users", "add", id, "bob") == sentence
        assert refused("bots", "add", id, "robot") == sentence
        assert refused("tunnels", "demo", id) == sentence
    assert said(capsys, "accounts", "list") == []


def test_a_demonstration_tunnel_with_labels_is_in_the_groups_that_they_match(
    transport: InProcess, capsys: Output
) -> None:
    account, admin, token = created(capsys)
    client = Client(transport, account=account, user=admin).with_token(token)
    group = client.create("/backends/tunnel_group", {"labels": {"app": "web"}})
    tunnel = client.get(f"/tunnels/{tunnels.open_demo_tunnel(account, dict([tunnels.parse_label('app=web')]))}").json
    assert (tunnel["labels"], tunnel["backends"]["id"]) == ({"app": "web"}, group["id"])
    bare = client.get(f"/tunnels/{tunnels.open_demo_tunnel(account, {})}").json
    assert "labels" not in bare
    assert bare["public_url"].endswith(".tunnels.example")


@pytest.mark.parametrize("text", ["app", "=web", ""])
def test_a_label_of_another_form_is_a_usage_error(capsys: Output, text: str) -> None:
    assert refused("tunnels", "demo", ids.new("acct"), "--label", text) == 2
    assert capsys.readouterr().err.endswith(f"argument --label: invalid label value: {text!r}\n")


def test_an_unknown_owner_of_a_key_is_one_sentence(capsys: Output) -> None:
    account, admin, _ = created(capsys)
    other, _, _ = created(capsys)
    for where, owner in ((account, ids.new("usr")), (account, "nonsense"), (account, account), (other, admin)):
        assert refused("keys", "issue", where, owner) == f"The account {where} has no user or bot {owner}."


def test_a_description_that_is_too_long_is_one_sentence(capsys: Output) -> None:
    account, admin, _ = created(capsys)
    sentence = refused("keys", "issue", account, admin, "--description", "é" * 128)
    assert sentence == "The description must be at most 255 bytes of UTF-8."


@pytest.mark.parametrize("arguments", [(), ("accounts",), ("accounts", "drop"), ("keys", "issue"), ("routes", "more")])
def test_a_command_that_is_not_whole_is_a_usage_error(capsys: Output, arguments: tuple[str, ...]) -> None:
    assert refused(*arguments) == 2
    assert capsys.readouterr().err.startswith("usage: python -m chalicelib")


def test_a_store_out_of_reach_is_one_sentence_and_exit_status_1() -> None:
    port = free_port()
    done = subprocess.run(
        [sys.executable, "-m", "chalicelib", "accounts", "list"],
        cwd=ROOT,
        env={**os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "The store cannot be used (EndpointConnectionError): it does not answer or is busy. It is table tunnel-edge, "
        f"key_id alias/tunnel-edge, region us-east-1, endpoint http://127.0.0.1:{port}.\n"
    )


def test_a_store_is_created_as_the_stack_creates_it(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABLE_NAME", "another")
    monkeypatch.setenv("KEY_ID", "alias/another")
    assert said(capsys, "store", "create") == ["table another was created", "key alias/another was created"]
    wanted = yaml_parse(data_stack.TEMPLATE.read_text())["Resources"]["Table"]["Properties"]
    table = aws.client("dynamodb").describe_table(TableName="another")["Table"]
    same = ("AttributeDefinitions", "KeySchema", "DeletionProtectionEnabled")
    assert [table[field] for field in same] == [wanted[field] for field in same]
    assert table["BillingModeSummary"]["BillingMode"] == wanted["BillingMode"]
    indexes, made = wanted["GlobalSecondaryIndexes"], table["GlobalSecondaryIndexes"]
    assert all(index.items() <= it.items() for index, it in zip(indexes, made, strict=True))
    store = aws.client("dynamodb")
    assert store.describe_table(TableName="another")["Table"]["SSEDescription"]["SSEType"] == "KMS"
    ttl = store.describe_time_to_live(TableName="another")["TimeToLiveDescription"]
    assert ttl == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires"}
    backups = store.describe_continuous_backups(TableName="another")["ContinuousBackupsDescription"]
    assert backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"
    key = aws.client("kms").describe_key(KeyId="alias/another")["KeyMetadata"]["KeyId"]
    assert aws.client("kms").get_key_rotation_status(KeyId=key)["KeyRotationEnabled"] is True
    sentence = "The table another and the key alias/another are there already: nothing was created."
    assert refused("store", "create") == sentence
    created(capsys)
    monkeypatch.setenv("KEY_ID", "alias/third")
    assert said(capsys, "store", "create") == ["table another is there already", "key alias/third was created"]


def test_a_key_without_an_alias_is_not_created(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_ID", "1234abcd-12ab-34cd-56ef-1234567890ab")
    sentence = "KEY_ID is 1234abcd-12ab-34cd-56ef-1234567890ab: to create a key, set it to an alias, alias/…."
    assert refused("store", "create") == sentence


def test_a_store_that_is_not_there_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABLE_NAME", "nowhere")
    assert refused("accounts", "list") == (
        "The store cannot be used (ResourceNotFoundException): the table does not exist: "
        "'python -m chalicelib store create' creates it. "
        "It is table nowhere, key_id alias/tunnel-edge, region us-east-1, endpoint AWS."
    )


@pytest.mark.parametrize("name", ["", "two\nlines"])
def test_a_name_that_would_spoil_a_list_is_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(SystemExit, match=r"^The name must not be empty, begin with ="):
        main(["accounts", "create", name])


def test_a_network_is_blocked_until_it_is_unblocked_and_the_operators_trail_tells_why(capsys: Output) -> None:
    assert said(capsys, "networks", "block", "192.0.2.9/24", "--reason", "phishing\x1b") == ["192.0.2.0/24 is blocked"]
    assert said(capsys, "networks", "block", "2001:db8::1") == ["2001:db8::1/128 is blocked"]
    listed = [json.loads(line) for line in said(capsys, "networks", "list", "--json")]
    assert [(it["network"], it["reason"]) for it in listed] == [("192.0.2.0/24", "phishing"), ("2001:db8::1/128", "")]
    assert said(capsys, "--as", "ann", "networks", "unblock", "192.0.2.0/24", "--reason", "x" * 300) == []
    assert [line.split()[0] for line in said(capsys, "networks", "list")] == ["2001:db8::1/128"]

    events = [json.loads(line) for line in said(capsys, "audit", "list", "--json")]
    assert [(it["action"], it["resource_id"], it["details"]["reason"]) for it in events] == [
        ("network_block.delete", "192.0.2.0/24", "x" * 255),
        ("network_block.create", "2001:db8::1/128", ""),
        ("network_block.create", "192.0.2.0/24", "phishing"),
    ]
    assert events[0]["actor"]["name"] == "ann"


def test_the_operators_trail_tells_who_banned_a_name_and_why_and_who_allowed_it_again(capsys: Output) -> None:
    name, account = "demo.tunnels.localhost", created(capsys)[0]
    opened(account, name=name)
    assert said(capsys, "--as", "ann", "names", "ban", name, "--reason", "phishing\x1b") == []
    assert said(capsys, "--as", "bob", "names", "allow", name) == []
    events = [json.loads(line) for line in said(capsys, "audit", "list", "--json")]
    told = [(it["action"], it["resource_id"], it["details"], it["actor"]["name"], it["source_ip"]) for it in events]
    host = socket.gethostname()
    assert told == [
        ("name_ban.delete", name, {"reason": ""}, "bob", host),
        ("name_ban.create", name, {"reason": "phishing"}, "ann", host),
    ]
    ended = page(account, before=None, count=1)[0][0].body
    assert (ended["action"], ended["details"]["reason"], ended["actor"]["name"]) == ("tunnel.delete", "phishing", "ann")
    assert ended["operation_id"] == events[1]["operation_id"] != events[0]["operation_id"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["block", "here"], "here is not a network, for example 192.0.2.0/24 or 2001:db8::/32."),
        (["block", "0.0.0.0/0"], "0.0.0.0/0 is larger than a /8."),
        (["unblock", "192.0.2.0/24"], "192.0.2.0/24 is not blocked."),
    ],
)
def test_what_is_no_network_is_not_blocked(words: list[str], sentence: str) -> None:
    assert refused("networks", *words) == sentence


def test_a_suspended_credential_signs_in_no_more_also_when_its_owner_is_switched_on_again(
    transport: InProcess, capsys: Output
) -> None:
    account, admin, token = created(capsys)
    client = bearer(transport, token)
    made = client.create("/ssh_credentials", {"public_key": public_key()})
    fingerprint = public_keys.fingerprint(made["public_key"])
    assert credentials.find_by_fingerprint(fingerprint)

    assert said(capsys, "suspend", made["id"], "--reason", "case 17") == []
    for action in ("disable", "enable"):
        said(capsys, "users", action, account, admin)
    assert credentials.find_by_fingerprint(fingerprint) is None
    assert credentials.read(account, made["id"]) is None
    assert said(capsys, "suspend", account) == []
    assert client.get("/ssh_credentials").status == 401
    events = [json.loads(line) for line in said(capsys, "audit", "list", "--json")]
    assert [(it["action"], it["resource_id"], it["details"]["reason"]) for it in events] == [
        ("account.suspend", account, ""),
        ("ssh_credential.suspend", made["id"], "case 17"),
    ]
    for id in (account, made["id"]):
        assert said(capsys, "resume", id) == []
    assert credentials.find_by_fingerprint(fingerprint) == credentials.read(account, made["id"])
    assert credentials.read(account, made["id"])
    newest = [json.loads(line)["action"] for line in said(capsys, "audit", "list", "--json")[:2]]
    assert newest == ["ssh_credential.resume", "account.resume"]
    told = client.get(f"/audit_events?resource_id={made['id']}").json["audit_events"]
    assert [it["details"] for it in told if it["action"] == "ssh_credential.update"] == [
        {"before": {"suspended": "true"}, "after": {}},
        {"before": {}, "after": {"suspended": "true"}, "reason": "case 17"},
    ]
    unknown = ids.new("sshcr")
    assert refused("suspend", unknown) == f"There is no SSH credential {unknown}."


def test_a_suspended_user_certificate_signs_in_no_more_and_what_it_opens_on_servers_stays(
    transport: InProcess, capsys: Output
) -> None:
    account, _, token = created(capsys)
    client = bearer(transport, token)
    authority = client.create("/ssh_certificate_authorities", {})
    body = {"ssh_certificate_authority_id": authority["id"], "public_key": public_key()}
    id, signer = client.create("/ssh_user_certificates", body)["id"], public_keys.fingerprint(authority["public_key"])
    revocations = f"/ssh_certificate_authorities/{authority['id']}/revocations"
    assert revoked.find_certificate(signer, id)

    assert said(capsys, "suspend", id, "--reason", "case 18") == []
    assert (revoked.find_certificate(signer, id), revoked.read_certificate(account, id)) == (None, None)
    assert client.get(revocations).json["revocations"] == []
    assert client.patch(f"/ssh_user_certificates/{id}", {"description": "mine"}).status == 200
    assert revoked.find_certificate(signer, id) is None
    assert said(capsys, "resume", id) == []
    assert revoked.find_certificate(signer, id)
    events = [json.loads(line) for line in said(capsys, "audit", "list", "--json")]
    assert [(it["action"], it["details"]["reason"]) for it in events if it["resource_id"] == id] == [
        ("ssh_user_certificate.resume", ""),
        ("ssh_user_certificate.suspend", "case 18"),
    ]
    assert refused("suspend", "usr_1") == "There is no account usr_1."
