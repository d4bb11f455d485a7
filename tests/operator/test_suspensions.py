"""Accounts, credentials and certificates that the operator suspends and resumes."""

import json

from chalicelib import ids
from chalicelib.crypto import public_keys
from chalicelib.model.ssh import credentials, revoked
from tests.operator.commands import Output, bearer, created, refused, said
from tests.samples import public_key
from tests.transports import InProcess


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
