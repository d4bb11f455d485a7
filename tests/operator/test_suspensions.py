"""Accounts, credentials and certificates that the operator suspends and resumes."""

import json

from chalicelib import ids
from chalicelib.crypto import public_keys
from chalicelib.model.ssh import credentials, revoked
from tests.operator.commands import Output, bearer, create_account, expect_failure, run_without_errors
from tests.samples import public_key
from tests.transports import InProcess


def test_a_suspended_credential_signs_in_no_more_also_when_its_owner_is_switched_on_again(
    transport: InProcess, capsys: Output
) -> None:
    account, admin, token = create_account(capsys)
    client = bearer(transport, token)
    credential = client.create("/ssh_credentials", {"public_key": public_key()})
    fingerprint = public_keys.fingerprint(credential["public_key"])
    assert credentials.find_by_fingerprint(fingerprint)

    assert run_without_errors(capsys, "suspend", credential["id"], "--reason", "case 17") == []
    for action in ("disable", "enable"):
        run_without_errors(capsys, "users", action, account, admin)
    assert credentials.find_by_fingerprint(fingerprint) is None
    assert credentials.read(account, credential["id"]) is None
    assert run_without_errors(capsys, "suspend", account) == []
    assert client.get("/ssh_credentials").status == 401
    events = [json.loads(line) for line in run_without_errors(capsys, "audit", "list", "--json")]
    assert [(event["action"], event["resource_id"], event["details"]["reason"]) for event in events] == [
        ("account.suspend", account, ""),
        ("ssh_credential.suspend", credential["id"], "case 17"),
    ]
    for id in (account, credential["id"]):
        assert run_without_errors(capsys, "resume", id) == []
    assert credentials.find_by_fingerprint(fingerprint) == credentials.read(account, credential["id"])
    assert credentials.read(account, credential["id"])
    newest = [json.loads(line)["action"] for line in run_without_errors(capsys, "audit", "list", "--json")[:2]]
    assert newest == ["ssh_credential.resume", "account.resume"]
    credential_events = client.get(f"/audit_events?resource_id={credential['id']}").json["audit_events"]
    assert [event["details"] for event in credential_events if event["action"] == "ssh_credential.update"] == [
        {"before": {"suspended": "true"}, "after": {}},
        {"before": {}, "after": {"suspended": "true"}, "reason": "case 17"},
    ]
    unknown = ids.new("sshcr")
    assert expect_failure("suspend", unknown) == f"There is no SSH credential {unknown}."


def test_a_suspended_user_certificate_signs_in_no_more_and_what_it_opens_on_servers_stays(
    transport: InProcess, capsys: Output
) -> None:
    account, _, token = create_account(capsys)
    client = bearer(transport, token)
    authority = client.create("/ssh_certificate_authorities", {})
    body = {"ssh_certificate_authority_id": authority["id"], "public_key": public_key()}
    id, signer = client.create("/ssh_user_certificates", body)["id"], public_keys.fingerprint(authority["public_key"])
    revocations = f"/ssh_certificate_authorities/{authority['id']}/revocations"
    assert revoked.find_certificate(signer, id)

    assert run_without_errors(capsys, "suspend", id, "--reason", "case 18") == []
    assert (revoked.find_certificate(signer, id), revoked.read_certificate(account, id)) == (None, None)
    assert client.get(revocations).json["revocations"] == []
    assert client.patch(f"/ssh_user_certificates/{id}", {"description": "mine"}).status == 200
    assert revoked.find_certificate(signer, id) is None
    assert run_without_errors(capsys, "resume", id) == []
    assert revoked.find_certificate(signer, id)
    events = [json.loads(line) for line in run_without_errors(capsys, "audit", "list", "--json")]
    assert [(event["action"], event["details"]["reason"]) for event in events if event["resource_id"] == id] == [
        ("ssh_user_certificate.resume", ""),
        ("ssh_user_certificate.suspend", "case 18"),
    ]
    assert expect_failure("suspend", "usr_1") == "There is no account usr_1."
