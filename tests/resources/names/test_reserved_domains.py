"""Reserved domains: an account's at once below TUNNEL_DOMAIN, for a day longer, and elsewhere once they are proved."""

from typing import Any

import pytest

from chalicelib import __main__ as operator
from chalicelib import clock
from chalicelib.model.names import proof_checks, proofs
from chalicelib.model.names.proofs import CheckResult, ProofChange
from chalicelib.model.tunnels import tunnels
from chalicelib.storage.records.unique_keys import Taken
from tests import samples
from tests.names import TEAM, D, assert_kept, assert_taken
from tests.names_held import end_cooldowns
from tests.queries import calls
from tests.refusals import assert_invalid, assert_refused
from tests.transports import Client
from tests.tunnels import open_agent_tunnel

pytestmark = pytest.mark.usefixtures("tunnel_domain")

PATH, OWN = "/reserved_domains", "app.example.com"
CERTIFICATE = "cert_2TfXCSmBHSvnQdwvT1fBtQ1mFEY"
CERTIFICATE_URI = f"http://localhost/tls_certificates/{CERTIFICATE}"
NO_SUFFIX = "must not be a public suffix: the names below it belong to different owners"


def reserve(client: Client, domain: str = OWN, **fields: Any) -> dict[str, Any]:
    reservation: dict[str, Any] = client.create(PATH, {"domain": domain, **fields})
    return reservation


def address(reservation: dict[str, Any]) -> str:
    return f"{PATH}/{reservation['id']}"


def record_check(kind: Any, reservation: dict[str, Any]) -> bool:
    """Look at a reservation as the live edge does; False where nothing was written."""
    now = clock.seconds()
    (due,) = [check for check in proof_checks.find_due(now, 100) if check.id == reservation["id"]]
    owner = proof_checks.find_proved(due.domain)
    if owner is None or owner.id == due.id or kind != "present":
        return proof_checks.record(due, proofs.apply_check(due.proof, CheckResult(kind), now))
    step, loss = proofs.apply_contest(due.proof, owner.proof, CheckResult("absent"), now)
    return proof_checks.record(due, step, (owner, loss) if loss else None)


def test_a_name_below_the_domain_is_the_account_s_at_once(admin: Client) -> None:
    reservation = reserve(admin, TEAM, description="d", metadata="m", region="us", resolves_to=None)
    assert reservation == {
        "id": reservation["id"],
        "uri": f"http://localhost{PATH}/{reservation['id']}",
        "created_at": reservation["created_at"],
        "description": "d",
        "metadata": "m",
        "domain": TEAM,
        "region": "",
        "cname_target": None,
        "certificate": None,
        "certificate_management_policy": None,
        "certificate_management_status": None,
        "acme_challenge_cname_target": None,
        "resolves_to": [],
    }
    assert admin.get(address(reservation)).json == reservation
    assert admin.get(PATH).json["reserved_domains"] == [reservation]


@pytest.mark.parametrize("spelt", [TEAM.upper(), f"{TEAM}.", f"x.{TEAM}", f"*.{TEAM}"])
def test_a_reserved_name_is_no_other_account_s_in_any_spelling(admin: Client, stranger: Client, spelt: str) -> None:
    reservation = reserve(admin, TEAM)
    assert_taken(stranger.post(PATH, {"domain": spelt}), "domain")
    assert_taken(stranger.post("/edges/https", {"hostports": [f"{TEAM}:443"]}))
    with pytest.raises(Taken):
        open_agent_tunnel(stranger.account, name=TEAM)
    tunnels.close_tunnel(admin.account, open_agent_tunnel(admin.account, name=TEAM))
    admin.create("/edges/https", {"hostports": [f"{TEAM}:443"]})
    admin.delete(address(reservation))
    assert_taken(stranger.post(PATH, {"domain": TEAM}), "domain")


def test_names_of_63_bytes_and_in_ascii_form_are_names(admin: Client, stranger: Client) -> None:
    for name in (f"{'a' * 63}.{D}", f"xn--mnchen-3ya.{D}"):
        assert reserve(admin, name.upper())["domain"] == name
        assert_taken(stranger.post(PATH, {"domain": name}), "domain")


def test_a_deleted_name_is_in_cooldown_for_a_day(admin: Client, stranger: Client) -> None:
    admin.delete(address(reserve(admin, TEAM)))
    assert_taken(stranger.post(PATH, {"domain": TEAM}), "domain")
    tunnels.close_tunnel(admin.account, open_agent_tunnel(admin.account, name=TEAM))
    assert_taken(stranger.post(PATH, {"domain": TEAM}), "domain")
    admin.delete(address(reserve(admin, TEAM)))
    end_cooldowns(admin)
    reserve(stranger, TEAM)
    assert_taken(admin.post(PATH, {"domain": TEAM}), "domain")


def test_what_is_no_domain_of_one_s_own_is_refused(admin: Client) -> None:
    for domain in ("com", "co.uk", "*.co.uk", "github.io"):
        answer = admin.post(PATH, {"domain": domain})
        assert (answer.status, answer.json["error_code"]) == (400, "invalid_request")
    assert_invalid(admin.post(PATH, {"domain": "co.uk"}), {"domain": NO_SUFFIX})
    for domain in (D, f"*.{D}"):
        assert_invalid(admin.post(PATH, {"domain": domain}), {"domain": f"must be a name below {D}"})
    assert_invalid(
        admin.post(PATH, {"domain": OWN, "resolves_to": ["x"]}), {"resolves_to": "must have at most 0 entries"}
    )
    assert_kept(admin.post(PATH, {"domain": f"www.{D}"}), "domain")
    operator.main(["names", "ban", TEAM])
    assert_kept(admin.post(PATH, {"domain": TEAM}), "domain")


def test_any_other_domain_waits_for_its_proof_beside_others(admin: Client, stranger: Client) -> None:
    first, second = reserve(admin), reserve(stranger)
    assert_taken(admin.post(PATH, {"domain": OWN.upper()}), "domain")
    for reservation in (first, second):
        verification = reservation["verification"]
        assert verification == {
            "name": f"_tunnel-verification.{OWN}",
            "value": verification["value"],
            "status": "pending",
            "checked_at": None,
            "error": "",
        }
        assert reservation["cname_target"].endswith(f".cname.{D}")
    assert first["verification"]["value"] != second["verification"]["value"]
    assert first["cname_target"] != second["cname_target"]


def test_what_a_look_found_is_shown_and_told(admin: Client, stranger: Client) -> None:
    first, second = reserve(admin), reserve(stranger)
    assert record_check("present", first)
    verification = admin.get(address(first)).json["verification"]
    assert (verification["status"], bool(verification["checked_at"]), verification["error"]) == ("verified", True, "")
    assert proof_checks.find_due(clock.seconds(), 10)[0].id == second["id"]
    assert record_check("present", second)  # whose record is there, while that of the first is gone
    assert admin.get(address(first)).json["verification"]["status"] == "lapsed"
    assert stranger.get(address(second)).json["verification"]["status"] == "verified"
    owner = proof_checks.find_proved(OWN)
    assert owner
    assert owner.id == second["id"]
    for client, reservation, verbs in ((admin, first, ["lapsed", "verified"]), (stranger, second, ["verified"])):
        events = client.get(f"/audit_events?resource_id={reservation['id']}").json["audit_events"]
        actions = [event["action"] for event in events if event["actor"]["type"] == "edge"]
        assert actions == [f"reserved_domain.{verb}" for verb in verbs]
    stranger.delete(address(second))
    assert proof_checks.find_proved(OWN) is None


def test_what_another_changed_meanwhile_is_not_written(admin: Client) -> None:
    reservation = reserve(admin)
    now = clock.seconds()
    (due,) = proof_checks.find_due(now, 1)
    claimed = proof_checks.claim(due, until=now + 60)
    assert claimed
    assert proof_checks.claim(due, until=now + 60) is None
    assert proof_checks.find_due(now, 1) == []
    assert proof_checks.find_due(now + 60, 1) == [claimed]
    step = ProofChange(proofs.apply_check(claimed.proof, CheckResult("present"), now).proof)
    assert not proof_checks.record(due, step)
    admin.delete(address(reservation))
    assert not proof_checks.record(claimed, step)
    assert proof_checks.find_due(now + 60, 1) == []


def test_a_wish_makes_a_look_due_once_a_minute(admin: Client) -> None:
    reservation = reserve(admin)
    assert record_check("absent", reservation)
    assert proof_checks.find_due(clock.seconds(), 1) == []
    answer = admin.post(f"{address(reservation)}/verify", None)
    assert (answer.status, answer.json) == (202, admin.get(address(reservation)).json)
    assert [check.id for check in proof_checks.find_due(clock.seconds(), 1)] == [reservation["id"]]
    again = admin.post(f"{address(reservation)}/verify", {})
    wait = int(again.headers["retry-after"])
    assert 1 < wait <= 60
    assert_refused(again, 429, "rate_limited", f"A check was requested less than a minute ago: wait {wait} seconds.")
    below = reserve(admin, TEAM)
    sentence = "The domain is below the operator's domain for tunnels, so no proof is necessary."
    assert_refused(admin.post(f"{address(below)}/verify", None), 409, "conflict", sentence, {})


def test_the_certificate_is_changed_and_taken_away(admin: Client) -> None:
    reservation = reserve(admin, TEAM, certificate_id=CERTIFICATE, proxy_protocol=True)
    assert reservation["certificate"] == {"id": CERTIFICATE, "uri": CERTIFICATE_URI}
    assert reservation["proxy_protocol"] is True
    fields = {"description": "", "certificate_id": None, "region": "eu", "certificate_management_policy": None}
    assert admin.patch(address(reservation), fields).json == reservation
    assert admin.delete(f"{address(reservation)}/certificate").status == 204
    assert admin.delete(f"{address(reservation)}/certificate_management_policy").status == 204
    assert admin.get(address(reservation)).json == {**reservation, "certificate": None}
    for part in ("certificate", "certificate_management_policy"):
        assert admin.delete(f"{PATH}/rd_{'0' * 27}/{part}").status == 404


def test_a_certificate_that_was_taken_away_can_be_deleted(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRICT_REFERENCES", "true")
    certificate = admin.create("/tls_certificates", samples.BODIES["/tls_certificates"](admin))["id"]
    reservation = reserve(admin, TEAM, certificate_id=certificate)
    assert admin.delete(f"{address(reservation)}/certificate").status == 204
    assert admin.delete(f"/tls_certificates/{certificate}").status == 204


@pytest.mark.parametrize(
    ("creation_fields", "change_fields"),
    [
        (  # a client that sends what it has, and empty lists always
            {"region": "", "description": "", "metadata": "", "resolves_to": []},
            {"description": "d", "metadata": "m", "certificate_id": CERTIFICATE, "resolves_to": []},
        ),
        (  # one that sends what it was given, the id of what it changes too
            {"region": "us", "certificate_id": CERTIFICATE, "certificate_management_policy": None},
            {"id": "{id}", "description": "d", "metadata": "m", "certificate_id": CERTIFICATE},
        ),
    ],
)
def test_published_clients_are_answered_as_they_are(
    admin: Client, creation_fields: dict[str, Any], change_fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCP_PORTS", "20000-20002")
    reservation = reserve(admin, TEAM, **creation_fields)
    body = {name: reservation["id"] if name == "id" else value for name, value in change_fields.items()}
    after = {"description": "d", "metadata": "m", "certificate": {"id": CERTIFICATE, "uri": CERTIFICATE_URI}}
    assert (
        admin.patch(address(reservation), body).json == admin.get(address(reservation)).json == {**reservation, **after}
    )
    assert admin.patch(address(reservation), {"resolves_to": []}).json == {**reservation, **after}
    for suffix in ("/certificate", "/certificate_management_policy", ""):
        assert admin.delete(f"{address(reservation)}{suffix}").status == 204
    port = admin.create("/reserved_addrs", {"region": "us", "description": "x", "metadata": ""})
    answer = admin.patch(f"/reserved_addrs/{port['id']}", {"id": port["id"], "description": "y"})
    assert answer.json == {**port, "description": "y"}
    assert admin.delete(f"/reserved_addrs/{port['id']}").status == 204


def test_without_a_domain_of_tunnels_only_others_are_reserved(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TUNNEL_DOMAIN")
    assert reserve(admin)["cname_target"] is None
    sentence = "No ports can be reserved here: the operator has not set TCP_PORTS."
    assert_refused(admin.post("/reserved_addrs", {}), 409, "conflict", sentence, {})


def test_a_reservation_a_tunnel_an_edge_and_a_page_take_the_same_calls(admin: Client, stranger: Client) -> None:
    def record_calls(number: int) -> list[list[str]]:
        with calls() as reserving:
            reserve(admin, f"r{number}.{D}")
        with calls() as claiming:
            reserve(admin, f"r{number}.example.com")
        with calls() as opening:
            tunnels.close_tunnel(admin.account, open_agent_tunnel(admin.account, name=f"t{number}.{D}"))
        with calls() as listening:
            admin.create("/edges/https", {"hostports": [f"e{number}.{D}:443", f"e{number}.example.com:443"]})
        with calls() as listing:
            admin.get(f"{PATH}?limit=10")
        with calls() as looking:
            proof_checks.find_due(clock.seconds() - 3600, 512)
        return [reserving, claiming, opening, listening, listing, looking]

    record_calls(0)
    before = record_calls(1)
    for number in range(20):
        reserve(stranger, f"s{number}.{D}")
        reserve(admin, f"s{number}.example.com")
    assert record_calls(2) == before
