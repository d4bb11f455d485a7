"""Automatic certificates of reserved domains: policies, their status, and the schedule that follows them."""

from typing import Any

import pytest

from chalicelib import clock
from chalicelib.model.names import proof_checks, renewal_schedule
from chalicelib.storage.records import table
from tests import openssl
from tests.names import TEAM, D
from tests.refusals import assert_invalid
from tests.transports import Client

PATH, OWN, WILDCARD, ZONE = "/reserved_domains", "app.example.com", "*.example.com", "acme.example.net"
CERTIFICATE = "cert_2TfXCSmBHSvnQdwvT1fBtQ1mFEY"
ECDSA = {"authority": "letsencrypt", "private_key_type": "ecdsa"}
RSA = {"authority": "letsencrypt", "private_key_type": "rsa"}
EXCLUSIVE = {
    "certificate_id": "must not be set together with certificate_management_policy: DELETE the other one first",
    "certificate_management_policy": "must not be set together with certificate_id: DELETE the other one first",
}


@pytest.fixture(autouse=True)
def offered(tunnel_domain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_DIRECTORY", "https://ca.example/directory")
    monkeypatch.setenv("ACME_DNS_ZONE", ZONE)


def reserve(client: Client, domain: str = OWN, **fields: Any) -> dict[str, Any]:
    reservation: dict[str, Any] = client.create(PATH, {"domain": domain, **fields})
    return reservation


def address(reservation: dict[str, Any]) -> str:
    return f"{PATH}/{reservation['id']}"


def list_scheduled() -> list[str]:
    """Return the ids of the entries in the schedule of certificates."""
    return [item.id for item in table.read_all(renewal_schedule.SCOPE)]


def automatic(reservation: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a response that concern automatic certificates."""
    names = ("certificate", "certificate_management_policy", "certificate_management_status")
    return {name: reservation[name] for name in (*names, "acme_challenge_cname_target")}


def first_attempt(reservation: dict[str, Any]) -> dict[str, Any]:
    job = {"error_code": None, "msg": None, "started_at": reservation["created_at"], "retries_at": None}
    return {"renews_at": None, "provisioning_job": job}


NOTHING = {
    "certificate": None,
    "certificate_management_policy": None,
    "certificate_management_status": None,
    "acme_challenge_cname_target": None,
}


@pytest.mark.parametrize("unset", [{}, {"private_key_type": None}, {"private_key_type": ""}])
def test_a_policy_starts_a_job(admin: Client, unset: dict[str, Any]) -> None:
    reservation = reserve(admin, certificate_management_policy={"authority": "letsencrypt", **unset})
    label, _, zone = reservation["acme_challenge_cname_target"].partition(".")
    assert (len(bytes.fromhex(label)), zone) == (16, ZONE)
    assert {**automatic(reservation), "acme_challenge_cname_target": None} == {
        "certificate": None,
        "certificate_management_policy": ECDSA,
        "certificate_management_status": first_attempt(reservation),
        "acme_challenge_cname_target": None,
    }
    assert admin.get(address(reservation)).json == reservation
    (entry,) = list_scheduled()
    assert entry.endswith(f"/{admin.account}/{reservation['id']}")


def test_a_policy_is_set_changed_and_ended(admin: Client) -> None:
    reservation = reserve(admin)
    assert (automatic(reservation), list_scheduled()) == (NOTHING, [])
    with_ecdsa = admin.patch(address(reservation), {"certificate_management_policy": ECDSA}).json
    assert (with_ecdsa["certificate_management_policy"], len(list_scheduled())) == (ECDSA, 1)
    with_description = admin.patch(
        address(reservation), {"certificate_management_policy": None, "description": "d"}
    ).json
    assert with_description == {**with_ecdsa, "description": "d"}
    of_rsa = admin.patch(address(reservation), {"certificate_management_policy": RSA}).json
    assert of_rsa == {**with_description, "certificate_management_policy": RSA}
    assert len(list_scheduled()) == 1
    for _ in range(2):
        assert admin.delete(f"{address(reservation)}/certificate_management_policy").status == 204
        assert (automatic(admin.get(address(reservation)).json), list_scheduled()) == (NOTHING, [])
    events = admin.get(f"/audit_events?resource_id={reservation['id']}").json["audit_events"]
    name = "certificate_management_policy"
    assert [(event["action"], event.get("changed", []), event["details"]) for event in events] == [
        ("reserved_domain.update", [name], {"before": {f"{name}.{field}": RSA[field] for field in RSA}, "after": {}}),
        (
            "reserved_domain.update",
            [name],
            {"before": {f"{name}.private_key_type": "ecdsa"}, "after": {f"{name}.private_key_type": "rsa"}},
        ),
        ("reserved_domain.update", ["description"], {}),
        (
            "reserved_domain.update",
            [name],
            {"before": {}, "after": {f"{name}.{field}": ECDSA[field] for field in ECDSA}},
        ),
        ("reserved_domain.create", [], {"domain": OWN, "proxy_protocol": "false"}),
    ]


def test_a_deleted_reservation_leaves_the_schedule(admin: Client) -> None:
    reservation = reserve(admin, certificate_management_policy=ECDSA)
    admin.delete(address(reservation))
    assert list_scheduled() == []


def test_a_policy_and_a_certificate_exclude_each_other(admin: Client) -> None:
    both = {"certificate_id": CERTIFICATE, "certificate_management_policy": ECDSA}
    assert_invalid(admin.post(PATH, {"domain": OWN, **both}), EXCLUSIVE)
    with_policy = reserve(admin, certificate_management_policy=ECDSA)
    with_certificate = reserve(admin, "b.example.com", certificate_id=CERTIFICATE)
    for reservation in (with_policy, with_certificate):
        assert_invalid(admin.patch(address(reservation), both), EXCLUSIVE)
    assert_invalid(admin.patch(address(with_policy), {"certificate_id": CERTIFICATE}), EXCLUSIVE)
    assert_invalid(admin.patch(address(with_certificate), {"certificate_management_policy": ECDSA}), EXCLUSIVE)
    for unset in (None, ""):
        answer = admin.patch(address(with_policy), {"certificate_management_policy": ECDSA, "certificate_id": unset})
        assert answer.json == with_policy
    answer = admin.patch(
        address(with_certificate), {"certificate_id": CERTIFICATE, "certificate_management_policy": None}
    )
    assert answer.json == with_certificate
    admin.delete(f"{address(with_certificate)}/certificate")
    with_rsa = admin.patch(address(with_certificate), {"certificate_management_policy": RSA}).json
    assert (with_rsa["certificate"], with_rsa["certificate_management_policy"]) == (None, RSA)


def test_policies_that_cannot_be_met_are_rejected(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = {"certificate_management_policy": ECDSA}

    def assert_rejected(domain: str, rule: str) -> None:
        assert_invalid(admin.post(PATH, {"domain": domain, **policy}), {"certificate_management_policy": rule})

    assert_rejected(TEAM, "must not be set below the domain of tunnels: the operator's certificate covers these names")
    assert_rejected(
        f"*.{TEAM}", "must not be set below the domain of tunnels: the operator's certificate covers these names"
    )
    for field, value in (("authority", "zerossl"), ("private_key_type", "ed25519")):
        answer = admin.post(PATH, {"domain": OWN, "certificate_management_policy": {**ECDSA, field: value}})
        assert (answer.status, next(iter(answer.json["details"]))) == (400, f"certificate_management_policy.{field}")
    without = admin.post(PATH, {"domain": OWN, "certificate_management_policy": {}})
    assert (without.status, next(iter(without.json["details"]))) == (400, "certificate_management_policy.authority")
    reserve(admin, "*.wild.example.com", **policy)
    single, below = reserve(admin, "c.example.com"), reserve(admin, TEAM)
    monkeypatch.delenv("ACME_DNS_ZONE")
    no_zone = (
        "must not be set for a wildcard: the operator has not set ACME_DNS_ZONE, which certificates for wildcards "
        "require"
    )
    assert_rejected(WILDCARD, no_zone)
    assert admin.patch(address(single), policy).json["acme_challenge_cname_target"] is None
    monkeypatch.delenv("ACME_DIRECTORY")
    assert_rejected(OWN, "must not be set: this service offers no automatic certificates")
    covered = "must not be set: this service offers no automatic certificates"
    assert_invalid(admin.patch(address(below), policy), {"certificate_management_policy": covered})
    assert admin.patch(address(single), {"description": "d"}).json["certificate_management_policy"] == ECDSA


def test_an_alias_target_is_of_one_reservation(admin: Client) -> None:
    first = reserve(admin, certificate_management_policy=ECDSA)
    target = first["acme_challenge_cname_target"]
    admin.delete(f"{address(first)}/certificate_management_policy")
    again = admin.patch(address(first), {"certificate_management_policy": RSA}).json
    assert again["acme_challenge_cname_target"] == target
    admin.delete(address(first))
    assert reserve(admin, certificate_management_policy=ECDSA)["acme_challenge_cname_target"] != target


def test_a_proof_hastens_nothing_that_does_not_wait(admin: Client) -> None:
    reservation = reserve(admin)
    admin.post(f"{address(reservation)}/verify", None)
    assert list_scheduled() == []
    assert [check.id for check in proof_checks.find_due(clock.seconds(), 1)] == [reservation["id"]]


@pytest.mark.parametrize(
    ("creation_fields", "change_fields"),
    [
        (  # a client that sends null for what its user did not set
            {"certificate_id": None, "certificate_management_policy": {"authority": "letsencrypt"}, "region": None},
            {"certificate_id": None, "certificate_management_policy": None, "description": None},
        ),
        (  # a client that sends its empty values
            {"certificate_id": "", "certificate_management_policy": {**ECDSA, "private_key_type": ""}, "region": ""},
            {"certificate_id": "", "certificate_management_policy": {**ECDSA, "private_key_type": ""}},
        ),
    ],
)
def test_published_clients_create_read_and_clear_a_policy(
    admin: Client, creation_fields: dict[str, Any], change_fields: dict[str, Any]
) -> None:
    reservation = reserve(admin, **creation_fields)
    assert reservation["certificate_management_policy"] == ECDSA
    assert admin.patch(address(reservation), change_fields).json == admin.get(address(reservation)).json == reservation
    assert admin.delete(f"{address(reservation)}/certificate_management_policy").status == 204
    assert automatic(admin.get(address(reservation)).json) == NOTHING


def test_a_record_without_a_policy_is_read_as_before(admin: Client) -> None:
    reservation = reserve(admin, f"x.{D}")
    assert automatic(reservation) == NOTHING


def test_a_removed_certificate_can_be_deleted_with_strict_references(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRICT_REFERENCES", "true")
    id = admin.create("/tls_certificates", openssl.issue().upload)["id"]
    reservation = reserve(admin, certificate_id=id)
    assert admin.delete(f"/tls_certificates/{id}").status == 409
    assert admin.delete(f"{address(reservation)}/certificate").status == 204
    assert admin.delete(f"/tls_certificates/{id}").status == 204
