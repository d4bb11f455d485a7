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


def reserved(client: Client, domain: str = OWN, **fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = client.create(PATH, {"domain": domain, **fields})
    return made


def address(reservation: dict[str, Any]) -> str:
    return f"{PATH}/{reservation['id']}"


def scheduled() -> list[str]:
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
    made = reserved(admin, certificate_management_policy={"authority": "letsencrypt", **unset})
    label, _, zone = made["acme_challenge_cname_target"].partition(".")
    assert (len(bytes.fromhex(label)), zone) == (16, ZONE)
    assert {**automatic(made), "acme_challenge_cname_target": None} == {
        "certificate": None,
        "certificate_management_policy": ECDSA,
        "certificate_management_status": first_attempt(made),
        "acme_challenge_cname_target": None,
    }
    assert admin.get(address(made)).json == made
    (entry,) = scheduled()
    assert entry.endswith(f"/{admin.account}/{made['id']}")


def test_a_policy_is_set_changed_and_ended(admin: Client) -> None:
    made = reserved(admin)
    assert (automatic(made), scheduled()) == (NOTHING, [])
    changed = admin.patch(address(made), {"certificate_management_policy": ECDSA}).json
    assert (changed["certificate_management_policy"], len(scheduled())) == (ECDSA, 1)
    kept = admin.patch(address(made), {"certificate_management_policy": None, "description": "d"}).json
    assert kept == {**changed, "description": "d"}
    of_rsa = admin.patch(address(made), {"certificate_management_policy": RSA}).json
    assert of_rsa == {**kept, "certificate_management_policy": RSA}
    assert len(scheduled()) == 1
    for _ in range(2):
        assert admin.delete(f"{address(made)}/certificate_management_policy").status == 204
        assert (automatic(admin.get(address(made)).json), scheduled()) == (NOTHING, [])
    events = admin.get(f"/audit_events?resource_id={made['id']}").json["audit_events"]
    name = "certificate_management_policy"
    assert [(it["action"], it.get("changed", []), it["details"]) for it in events] == [
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
    made = reserved(admin, certificate_management_policy=ECDSA)
    admin.delete(address(made))
    assert scheduled() == []


def test_a_policy_and_a_certificate_exclude_each_other(admin: Client) -> None:
    both = {"certificate_id": CERTIFICATE, "certificate_management_policy": ECDSA}
    assert_invalid(admin.post(PATH, {"domain": OWN, **both}), EXCLUSIVE)
    with_policy = reserved(admin, certificate_management_policy=ECDSA)
    with_certificate = reserved(admin, "b.example.com", certificate_id=CERTIFICATE)
    for made in (with_policy, with_certificate):
        assert_invalid(admin.patch(address(made), both), EXCLUSIVE)
    assert_invalid(admin.patch(address(with_policy), {"certificate_id": CERTIFICATE}), EXCLUSIVE)
    assert_invalid(admin.patch(address(with_certificate), {"certificate_management_policy": ECDSA}), EXCLUSIVE)
    for unset in (None, ""):
        same = admin.patch(address(with_policy), {"certificate_management_policy": ECDSA, "certificate_id": unset})
        assert same.json == with_policy
    same = admin.patch(
        address(with_certificate), {"certificate_id": CERTIFICATE, "certificate_management_policy": None}
    )
    assert same.json == with_certificate
    admin.delete(f"{address(with_certificate)}/certificate")
    changed = admin.patch(address(with_certificate), {"certificate_management_policy": RSA}).json
    assert (changed["certificate"], changed["certificate_management_policy"]) == (None, RSA)


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
    reserved(admin, "*.wild.example.com", **policy)
    single, below = reserved(admin, "c.example.com"), reserved(admin, TEAM)
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
    first = reserved(admin, certificate_management_policy=ECDSA)
    target = first["acme_challenge_cname_target"]
    admin.delete(f"{address(first)}/certificate_management_policy")
    again = admin.patch(address(first), {"certificate_management_policy": RSA}).json
    assert again["acme_challenge_cname_target"] == target
    admin.delete(address(first))
    assert reserved(admin, certificate_management_policy=ECDSA)["acme_challenge_cname_target"] != target


def test_a_proof_hastens_nothing_that_does_not_wait(admin: Client) -> None:
    made = reserved(admin)
    admin.post(f"{address(made)}/verify", None)
    assert scheduled() == []
    assert [it.id for it in proof_checks.find_due(clock.seconds(), 1)] == [made["id"]]


@pytest.mark.parametrize(
    ("created", "changed"),
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
    admin: Client, created: dict[str, Any], changed: dict[str, Any]
) -> None:
    made = reserved(admin, **created)
    assert made["certificate_management_policy"] == ECDSA
    assert admin.patch(address(made), changed).json == admin.get(address(made)).json == made
    assert admin.delete(f"{address(made)}/certificate_management_policy").status == 204
    assert automatic(admin.get(address(made)).json) == NOTHING


def test_a_record_without_a_policy_is_read_as_before(admin: Client) -> None:
    made = reserved(admin, f"x.{D}")
    assert automatic(made) == NOTHING


def test_a_removed_certificate_can_be_deleted_with_strict_references(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRICT_REFERENCES", "true")
    id = admin.create("/tls_certificates", openssl.issue().upload)["id"]
    made = reserved(admin, certificate_id=id)
    assert admin.delete(f"/tls_certificates/{id}").status == 409
    assert admin.delete(f"{address(made)}/certificate").status == 204
    assert admin.delete(f"/tls_certificates/{id}").status == 204
