"""Attempts of the issuer as the table shows them: claims, outcomes, and issued certificates."""

from dataclasses import replace
from typing import Any, Literal

import pytest

from chalicelib import clock, crypto, ids
from chalicelib.crypto.chains import Chain
from chalicelib.model.names import issued_certificates, proof_checks, proofs, renewal_schedule
from chalicelib.model.names.issued_certificates import LostCertificate, UnfinishedOrder
from chalicelib.model.names.proofs import CheckResult
from chalicelib.model.names.renewal_schedule import DueRenewal
from chalicelib.storage import vault
from chalicelib.storage.records import table
from tests import openssl
from tests.proving import prove
from tests.refusals import assert_invalid, assert_refused
from tests.transports import Client

DOMAIN = "app.example.com"
POLICY = {"authority": "letsencrypt", "private_key_type": "ecdsa"}
NOW = clock.seconds()


@pytest.fixture(autouse=True)
def offered(tunnel_domain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_DIRECTORY", "https://ca.example/directory")


def reserve(client: Client, domain: str = DOMAIN) -> dict[str, Any]:
    reservation: dict[str, Any] = client.create(
        "/reserved_domains", {"domain": domain, "certificate_management_policy": POLICY}
    )
    return reservation


def read_reservation(client: Client, reservation: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = client.get(f"/reserved_domains/{reservation['id']}").json
    return body


def claim_renewal(later: int = 0) -> DueRenewal:
    """Claim the only entry for ten minutes, `later` seconds from now."""
    now = clock.seconds() + later
    (due,) = renewal_schedule.find_due(now, 10)
    claim = renewal_schedule.claim(due, now, now + 600)
    assert claim
    assert renewal_schedule.claim(due, now, now + 600) is None
    return claim


def chain() -> Chain:
    issued = openssl.issue("/CN=app", "p256", extensions=(f"subjectAltName=DNS:{DOMAIN}",))
    return crypto.chains.read(issued.certificate, 1 << 16)


def issue(client: Client, due: DueRenewal) -> str:
    """Store a certificate for a claimed entry as the issuer does; return its id."""
    id = ids.new("cert")
    order = UnfinishedOrder(
        "https://ca.example/order/1",
        DOMAIN,
        "http-01",
        id,
        b"request",
        vault.seal(b"key", vault.context(client.account, id)),
    )
    issued_certificates.put_order(due, order)
    assert issued_certificates.find_order(due) == order
    renewal = replace(due.entry.renewal, due_at=NOW + 9000, started_at=0, renews_at=NOW + 9000)
    results = [issued_certificates.record(due, order, chain(), renewal) for _ in range(2)]
    assert results == ["recorded", "overtaken"]
    assert issued_certificates.find_order(due) is None
    return id


def test_an_issued_certificate_is_referenced_with_one_event(admin: Client) -> None:
    reservation = reserve(admin)
    id = issue(admin, claim_renewal())
    after = read_reservation(admin, reservation)
    assert after["certificate"]["id"] == id
    renews_at = clock.rfc3339(clock.at(NOW + 9000))
    assert after["certificate_management_status"] == {"renews_at": renews_at, "provisioning_job": None}
    certificate = admin.get(f"/tls_certificates/{id}").json
    assert certificate["subject_alternative_names"]["dns_names"] == [DOMAIN]
    assert (certificate["description"], bool(certificate["issued_at"])) == (f"Issued for {DOMAIN}", True)
    assert "created_by" not in certificate
    (event,) = admin.get(f"/audit_events?resource_id={id}").json["audit_events"]
    assert (event["action"], event["actor"]["type"]) == ("tls_certificate.create", "edge")
    assert event["details"] == {
        "fingerprint": event["details"]["fingerprint"],
        "names": [DOMAIN],
        "not_after": certificate["not_after"],
        "reserved_domain": reservation["id"],
    }
    assert renewal_schedule.find_due(clock.seconds(), 10) == []


def test_a_key_type_that_changes_during_an_attempt_is_ordered_afterwards(admin: Client) -> None:
    reservation, due = reserve(admin), claim_renewal()
    rsa = {"certificate_management_policy": {**POLICY, "private_key_type": "rsa"}}
    assert admin.patch(f"/reserved_domains/{reservation['id']}", rsa).status == 200
    id = issue(admin, due)
    after = read_reservation(admin, reservation)
    assert (after["certificate"]["id"], bool(after["certificate_management_status"]["provisioning_job"])) == (id, True)
    assert claim_renewal(later=61).stored is not None


def test_a_certificate_that_is_deleted_while_its_renewal_is_planned_is_ordered_again(admin: Client) -> None:
    reservation = reserve(admin)
    issue(admin, claim_renewal())
    due = claim_renewal(later=9001)
    admin.delete(f"/reserved_domains/{reservation['id']}/certificate")
    planned = replace(due.entry.renewal, due_at=NOW + 90_000)
    assert renewal_schedule.conclude(due, planned, clock.seconds())
    assert read_reservation(admin, reservation)["certificate_management_status"]["provisioning_job"] is not None
    assert claim_renewal(later=9062).stored is not None


def test_a_reference_of_the_issuer_is_not_a_chosen_certificate(admin: Client) -> None:
    reservation = reserve(admin)
    address = f"/reserved_domains/{reservation['id']}"
    id = issue(admin, claim_renewal())
    certificate = f"/tls_certificates/{id}"
    first = "remove the certificate or the certificate policy from that domain first."
    sentence = f"The reserved domain {DOMAIN} uses this certificate: {first}"
    assert_refused(admin.delete(certificate), 409, "conflict", sentence, {})
    body = admin.patch(address, {"certificate_management_policy": {**POLICY, "private_key_type": "rsa"}}).json
    assert (body["certificate"]["id"], len(renewal_schedule.find_due(clock.seconds() + 60, 10))) == (id, 1)
    exclusive = admin.patch(address, {"certificate_id": id})
    assert (exclusive.status, sorted(exclusive.json["details"])[:2]) == (
        400,
        ["certificate_id", "certificate_management_policy"],
    )
    admin.delete(f"{address}/certificate_management_policy")
    assert read_reservation(admin, reservation)["certificate"]["id"] == id
    again = admin.patch(address, {"certificate_management_policy": POLICY}).json
    assert again["certificate"]["id"] == id
    admin.delete(f"{address}/certificate")
    assert read_reservation(admin, reservation)["certificate"] is None
    admin.delete(certificate)


def test_an_issued_certificate_can_be_chosen_where_it_covers(admin: Client) -> None:
    reserve(admin)
    id = issue(admin, claim_renewal())
    body = {"domain": "other.example.com", "certificate_id": id}
    rule = "must be an uploaded certificate, or an automatic certificate that covers the domain"
    assert_invalid(admin.post("/reserved_domains", body), {"certificate_id": rule})
    other = admin.create("/reserved_domains", {"domain": "other.example.com"})
    assert_invalid(admin.patch(f"/reserved_domains/{other['id']}", {"certificate_id": id}), {"certificate_id": rule})


def test_a_removed_certificate_is_ordered_again(admin: Client) -> None:
    reservation = reserve(admin)
    issue(admin, claim_renewal())
    admin.delete(f"/reserved_domains/{reservation['id']}/certificate")
    status = read_reservation(admin, reservation)["certificate_management_status"]
    assert status["provisioning_job"]["retries_at"] is None
    assert [due.entry.reservation for due in renewal_schedule.find_due(clock.seconds() + 60, 10)] == [reservation["id"]]
    assert renewal_schedule.find_due(clock.seconds(), 10) == []  # at most one attempt a minute


def test_a_failed_attempt_is_shown_without_a_revision_and_an_event(admin: Client) -> None:
    reservation = reserve(admin)
    before = admin.get(f"/reserved_domains/{reservation['id']}")
    due = claim_renewal()
    failed = replace(due.entry.renewal, due_at=NOW + 300, error_code="caa_forbids", msg="Change it.", attempts=2)
    assert renewal_schedule.conclude(due, failed, NOW)
    assert not renewal_schedule.conclude(due, failed, NOW)
    after = admin.get(f"/reserved_domains/{reservation['id']}")
    assert after.json["certificate_management_status"]["provisioning_job"] == {
        "error_code": "caa_forbids",
        "msg": "Change it.",
        "started_at": reservation["created_at"],
        "retries_at": clock.rfc3339(clock.at(NOW + 300)),
    }
    tags = [answer.headers["etag"].strip('"').partition("-") for answer in (before, after)]
    assert tags[0][0] == tags[1][0]
    assert tags[0][2] != tags[1][2]
    assert len(admin.get(f"/audit_events?resource_id={reservation['id']}").json["audit_events"]) == 1


def test_a_change_during_an_attempt_makes_the_next_one_follow_soon(admin: Client) -> None:
    reservation = reserve(admin)
    due = claim_renewal()
    admin.patch(f"/reserved_domains/{reservation['id']}", {"description": "d"})
    failed = replace(due.entry.renewal, due_at=NOW + 3000, error_code="internal", msg="Wait.", attempts=3)
    assert renewal_schedule.conclude(due, failed, clock.seconds())
    (next_one,) = renewal_schedule.find_due(clock.seconds() + 60, 10)
    assert (next_one.entry.renewal.attempts, next_one.entry.renewal.is_claimed) == (0, False)


@pytest.mark.parametrize("suffix", ["", "/certificate_management_policy"])
def test_a_policy_that_ends_during_an_attempt_leaves_nothing(admin: Client, suffix: str) -> None:
    reservation = reserve(admin)
    due = claim_renewal()
    admin.delete(f"/reserved_domains/{reservation['id']}{suffix}")
    assert len([*table.read_all(renewal_schedule.SCOPE)]) == 1
    id = ids.new("cert")
    order = UnfinishedOrder("https://ca.example/order/1", DOMAIN, "http-01", id, b"request", b"key")
    assert issued_certificates.record(due, order, chain(), due.entry.renewal) == "unwanted"
    assert renewal_schedule.conclude(due, due.entry.renewal, NOW)
    assert [*table.read_all(renewal_schedule.SCOPE)] == []


def test_an_ended_claim_is_due_again_with_its_order(admin: Client) -> None:
    reserve(admin)
    due, other = claim_renewal(), claim_renewal(later=601)
    assert renewal_schedule.conclude(due, due.entry.renewal, NOW) is False
    assert other.entry.renewal.is_claimed


def test_a_malformed_entry_is_removed_and_others_are_read(admin: Client) -> None:
    reservation = reserve(admin)
    (due,) = renewal_schedule.find_due(clock.seconds(), 10)
    malformed_entry = replace(due.entry, reservation="rd_no")
    malformed_entry.put()
    assert [due.entry.reservation for due in renewal_schedule.find_due(clock.seconds(), 10)] == [reservation["id"]]


def checked(reservation: dict[str, Any], kind: Literal["present", "absent"]) -> None:
    """Record the result of a check of a proof, as the live edge does."""
    now = clock.seconds()
    (due,) = [check for check in proof_checks.find_due(now, 10) if check.id == reservation["id"]]
    owner = proof_checks.find_proved(due.domain)
    if owner is None or owner.id == due.id:
        assert proof_checks.record(due, proofs.apply_check(due.proof, CheckResult(kind), now))
        return
    step, loss = proofs.apply_contest(due.proof, owner.proof, CheckResult("absent"), now)
    assert proof_checks.record(due, step, (owner, loss) if loss else None)


def test_a_proof_hastens_a_job_that_waits(admin: Client) -> None:
    reservation = reserve(admin)
    due = claim_renewal()
    failed = replace(due.entry.renewal, due_at=NOW + 9000, error_code="domain_unproved", msg="Prove it.", attempts=4)
    assert renewal_schedule.conclude(due, failed, NOW)
    checked(reservation, "present")
    assert [due.entry.reservation for due in renewal_schedule.find_due(clock.seconds() + 60, 10)] == [reservation["id"]]


def test_a_domain_that_another_account_proves_loses_its_certificate(admin: Client, stranger: Client) -> None:
    lost, won = reserve(admin), reserve(stranger)
    checked(lost, "present")
    (own_due,) = [due for due in renewal_schedule.find_due(clock.seconds(), 10) if due.entry.account == admin.account]
    due = renewal_schedule.claim(own_due, NOW, NOW + 600)
    assert due
    id = issue(admin, due)
    checked(won, "present")
    assert (read_reservation(admin, lost)["certificate"], read_reservation(admin, lost)["verification"]["status"]) == (
        None,
        "lapsed",
    )
    (lost_certificate,) = issued_certificates.find_lost(clock.seconds())
    assert lost_certificate == LostCertificate(admin.account, id)
    assert issued_certificates.read_chain(lost_certificate.account, lost_certificate.certificate_id) == chain().pem
    issued_certificates.forget_lost(lost_certificate)
    assert issued_certificates.find_lost(clock.seconds()) == []
    status = read_reservation(admin, lost)["certificate_management_status"]
    assert (status["renews_at"], bool(status["provisioning_job"])) == (None, True)

    prove(won["id"], "lapsed")
    prove(lost["id"])
    entries = [due.entry for due in renewal_schedule.find_due(clock.seconds() + 60, 10)]
    (again,) = [entry for entry in entries if entry.account == admin.account]
    assert (again.renewal.certificate_id, again.renewal.started_at > 0) == ("", True)


def test_a_domain_that_is_lost_while_its_renewal_is_planned_is_ordered_when_it_is_proved(
    admin: Client, stranger: Client
) -> None:
    own_reservation, stranger_reservation = reserve(admin), stranger.create("/reserved_domains", {"domain": DOMAIN})
    checked(own_reservation, "present")
    issue(admin, claim_renewal())
    due = claim_renewal(later=9001)
    checked(stranger_reservation, "present")
    assert renewal_schedule.conclude(due, replace(due.entry.renewal, due_at=NOW + 90_000), clock.seconds())
    (again,) = renewal_schedule.find_due(clock.seconds() + 9070, 10)
    assert (again.entry.renewal.certificate_id, again.entry.renewal.started_at > 0) == ("", True)
