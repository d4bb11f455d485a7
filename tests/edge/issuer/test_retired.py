"""Revocation of certificates of lost domains, deletion of replaced ones, and replacement of those Envoy rejects."""

from dataclasses import dataclass, field

import pytest
from cryptography import x509

from chalicelib import clock
from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import Report
from chalicelib.model.names import issued_certificates
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from edge.issuer.attempts import AttemptFailed
from edge.issuer.retired import Retired
from edge.issuer.rules import outcomes
from tests.edge.issuer.attempting import Issuer, WindowedCa, reserved, status
from tests.edge.issuer.fake_ca import World
from tests.transports import Client

DAY = 86400
_EVER = 9_999_999_999


@pytest.fixture(autouse=True)
def acme_directory(tunnel_domain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_DIRECTORY", "https://ca.example/directory")


@dataclass
class Revocations:
    """The CA. It records what is revoked."""

    revoked: list[tuple[int, int]] = field(default_factory=list)  # serial number and reason
    is_away: bool = False

    def revoke(self, certificate: x509.Certificate, reason: int) -> None:
        if self.is_away:
            raise AttemptFailed(outcomes.ca_unreachable(), "away")
        self.revoked.append((certificate.serial_number, reason))


def read_retired(ca: Revocations, later: int = 0) -> Retired:
    return Retired(ca, 60, now=lambda: clock.seconds() + later)


def test_a_certificate_of_a_lost_domain_is_revoked_when_the_ca_is_there(admin: Client) -> None:
    address = reserved(admin)
    Issuer(WindowedCa(World())).run()
    id = admin.get(address).json["certificate"]["id"]
    revocation = {"scope": "edge#/revocations", "id": f"{admin.account}/{id}", "body": {}, "revision": 1}
    dynamodb.do(Write.put(revocation))
    ca = Revocations(is_away=True)
    read_retired(ca).revoke_lost()
    assert len(issued_certificates.find_lost(_EVER)) == 1
    ca.is_away = False
    read_retired(ca).revoke_lost()
    assert ca.revoked == []
    read_retired(ca, 80).revoke_lost()
    read_retired(ca, 80).revoke_lost()
    serial = int(admin.get(f"/tls_certificates/{id}").json["serial_number"], 16)
    assert (ca.revoked, issued_certificates.find_lost(_EVER)) == ([(serial, 5)], [])


def test_a_replaced_certificate_is_deleted_after_a_day_with_an_event(admin: Client) -> None:
    address = reserved(admin)
    issuer = Issuer(WindowedCa(World()))
    issuer.run()
    first = admin.get(address).json["certificate"]["id"]
    admin.patch(address, {"certificate_management_policy": {"authority": "letsencrypt", "private_key_type": "rsa"}})
    issuer.later = 61
    issuer.run()
    second = admin.get(address).json["certificate"]["id"]
    read_retired(Revocations(), DAY - 10).delete_replaced()
    assert {certificate["id"] for certificate in admin.get("/tls_certificates").json["tls_certificates"]} == {
        first,
        second,
    }
    for _ in range(2):
        read_retired(Revocations(), DAY + 10).delete_replaced()
    assert [certificate["id"] for certificate in admin.get("/tls_certificates").json["tls_certificates"]] == [second]
    events = admin.get(f"/audit_events?resource_id={first}").json["audit_events"]
    assert [(event["action"], event["actor"]["type"]) for event in events] == [
        ("tls_certificate.delete", "edge"),
        ("tls_certificate.create", "edge"),
    ]
    assert admin.get(address).json["certificate"]["id"] == second


def test_a_replaced_certificate_that_the_account_has_deleted_is_forgotten(admin: Client) -> None:
    address = reserved(admin)
    issuer = Issuer(WindowedCa(World()))
    issuer.run()
    first = admin.get(address).json["certificate"]["id"]
    admin.patch(address, {"certificate_management_policy": {"authority": "letsencrypt", "private_key_type": "rsa"}})
    issuer.later = 61
    issuer.run()
    assert admin.delete(f"/tls_certificates/{first}").status == 204
    read_retired(Revocations(), DAY + 10).delete_replaced()
    events = admin.get(f"/audit_events?resource_id={first}").json["audit_events"]
    assert [event["action"] for event in events] == ["tls_certificate.delete", "tls_certificate.create"]


def reject(client: Client, id: str) -> None:
    """Report a certificate as rejected, as a live edge host does."""
    edge_status.announce("host", lease=60)
    edge_status.write(client.account, id, Report(0, clock.rfc3339(clock.now()), "host", {id: "weak"}))


def test_a_replaced_certificate_stays_while_envoy_rejects_the_new_one(admin: Client) -> None:
    address = reserved(admin)
    issuer = Issuer(WindowedCa(World()))
    issuer.run()
    first = admin.get(address).json["certificate"]["id"]
    admin.patch(address, {"certificate_management_policy": {"authority": "letsencrypt", "private_key_type": "rsa"}})
    issuer.later = 61
    issuer.run()
    second, start = admin.get(address).json["certificate"]["id"], clock.seconds()
    reject(admin, second)
    for _ in range(2):
        read_retired(Revocations()).replace_rejected()
    job = status(admin, address)["provisioning_job"]
    assert (job["error_code"], clock.parse(job["retries_at"]).timestamp() - start in (DAY, DAY + 1)) == (
        "internal",
        True,
    )
    read_retired(Revocations(), DAY - 10).delete_replaced()
    edge_status.remove_host("host")  # a host that starts again reports it with the next visitor
    read_retired(Revocations(), DAY + 100).delete_replaced()
    assert admin.get(f"/tls_certificates/{first}").status == 200

    issuer.later = DAY + 62
    issuer.run()
    third = admin.get(address).json["certificate"]["id"]
    assert status(admin, address)["provisioning_job"] is None
    reject(admin, second)
    read_retired(Revocations(), DAY + 100).delete_replaced()
    assert admin.get(f"/tls_certificates/{first}").status == 200
    edge_status.remove_host("host")
    read_retired(Revocations(), 2 * DAY + 100).delete_replaced()
    assert [certificate["id"] for certificate in admin.get("/tls_certificates").json["tls_certificates"]] == [third]


def test_a_rejected_certificate_that_no_policy_uses_has_no_job(admin: Client) -> None:
    address = reserved(admin)
    Issuer(WindowedCa(World())).run()
    first = admin.get(address).json["certificate"]["id"]
    admin.delete(f"{address}/certificate_management_policy")
    reject(admin, first)
    read_retired(Revocations()).replace_rejected()
    assert status(admin, address) is None
