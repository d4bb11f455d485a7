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
from tests.tunnels import opened

pytestmark = pytest.mark.usefixtures("tunnel_domain")

PATH, OWN = "/reserved_domains", "app.example.com"
CERTIFICATE = "cert_2TfXCSmBHSvnQdwvT1fBtQ1mFEY"
CERTIFICATE_URI = f"http://localhost/tls_certificates/{CERTIFICATE}"
NO_SUFFIX = "must not be a public suffix: the names below it belong to different owners"


def reserved(client: Client, domain: str = OWN, **fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = client.create(PATH, {"domain": domain, **fields})
    return made


def address(reservation: dict[str, Any]) -> str:
    return f"{PATH}/{reservation['id']}"


def found(kind: Any, reservation: dict[str, Any]) -> bool:
    """Look at a reservation as the live edge does; False where nothing was written."""
    now = clock.seconds()
    (due,) = [it for it in proof_checks.find_due(now, 100) if it.id == reservation["id"]]
    holder = proof_checks.find_proved(due.domain)
    if holder is None or holder.id == due.id or kind != "present":
        return proof_checks.record(due, proofs.apply_check(due.proof, CheckResult(kind), now))
    step, lost = proofs.apply_contest(due.proof, holder.proof, CheckResult("absent"), now)
    return proof_checks.record(due, step, (holder, lost) if lost else None)


def test_a_name_below_the_domain_is_the_account_s_at_once(admin: Client) -> None:
    made = reserved(admin, TEAM, description="d", metadata="m", region="us", resolves_to=None)
    assert made == {
        "id": made["id"],
        "uri": f"http://localhost{PATH}/{made['id']}",
        "created_at": made["created_at"],
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
    assert admin.get(address(made)).json == made
    assert admin.get(PATH).json["reserved_domains"] == [made]


@pytest.mark.parametrize("spelt", [TEAM.upper(), f"{TEAM}.", f"x.{TEAM}", f"*.{TEAM}"])
def test_a_reserved_name_is_no_other_account_s_in_any_spelling(admin: Client, stranger: Client, spelt: str) -> None:
    made = reserved(admin, TEAM)
    assert_taken(stranger.post(PATH, {"domain": spelt}), "domain")
    assert_taken(stranger.post("/edges/https", {"hostports": [f"{TEAM}:443"]}))
    with pytest.raises(Taken):
        opened(stranger.account, name=TEAM)
    tunnels.close_tunnel(admin.account, opened(admin.account, name=TEAM))
    admin.create("/edges/https", {"hostports": [f"{TEAM}:443"]})
    admin.delete(address(made))
    assert_taken(stranger.post(PATH, {"domain": TEAM}), "domain")


def test_names_of_63_bytes_and_in_ascii_form_are_names(admin: Client, stranger: Client) -> None:
    for name in (f"{'a' * 63}.{D}", f"xn--mnchen-3ya.{D}"):
        assert reserved(admin, name.upper())["domain"] == name
        assert_taken(stranger.post(PATH, {"domain": name}), "domain")


def test_a_deleted_name_is_in_cooldown_for_a_day(admin: Client, stranger: Client) -> None:
    admin.delete(address(reserved(admin, TEAM)))
    assert_taken(stranger.post(PATH, {"domain": TEAM}), "domain")
    tunnels.close_tunnel(admin.account, opened(admin.account, name=TEAM))
    assert_taken(stranger.post(PATH, {"domain": TEAM}), "domain")
    admin.delete(address(reserved(admin, TEAM)))
    end_cooldowns(admin)
    reserved(stranger, TEAM)
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
    first, second = reserved(admin), reserved(stranger)
    assert_taken(admin.post(PATH, {"domain": OWN.upper()}), "domain")
    for made in (first, second):
        verification = made["verification"]
        assert verification == {
            "name": f"_tunnel-verification.{OWN}",
            "value": verification["value"],
            "status": "pending",
            "checked_at": None,
            "error": "",
        }
        assert made["cname_target"].endswith(f".cname.{D}")
    assert first["verification"]["value"] != second["verification"]["value"]
    assert first["cname_target"] != second["cname_target"]


def test_what_a_look_found_is_shown_and_told(admin: Client, stranger: Client) -> None:
    first, second = reserved(admin), reserved(stranger)
    assert found("present", first)
    shown = admin.get(address(first)).json["verification"]
    assert (shown["status"], bool(shown["checked_at"]), shown["error"]) == ("verified", True, "")
    assert proof_checks.find_due(clock.seconds(), 10)[0].id == second["id"]
    assert found("present", second)  # whose record is there, while that of the first is gone
    assert admin.get(address(first)).json["verification"]["status"] == "lapsed"
    assert stranger.get(address(second)).json["verification"]["status"] == "verified"
    holder = proof_checks.find_proved(OWN)
    assert holder
    assert holder.id == second["id"]
    for client, made, told in ((admin, first, ["lapsed", "verified"]), (stranger, second, ["verified"])):
        events = client.get(f"/audit_events?resource_id={made['id']}").json["audit_events"]
        actions = [it["action"] for it in events if it["actor"]["type"] == "edge"]
        assert actions == [f"reserved_domain.{verb}" for verb in told]
    stranger.delete(address(second))
    assert proof_checks.find_proved(OWN) is None


def test_what_another_changed_meanwhile_is_not_written(admin: Client) -> None:
    made = reserved(admin)
    now = clock.seconds()
    (due,) = proof_checks.find_due(now, 1)
    claimed = proof_checks.claim(due, until=now + 60)
    assert claimed
    assert proof_checks.claim(due, until=now + 60) is None
    assert proof_checks.find_due(now, 1) == []
    assert proof_checks.find_due(now + 60, 1) == [claimed]
    step = ProofChange(proofs.apply_check(claimed.proof, CheckResult("present"), now).proof)
    assert not proof_checks.record(due, step)
    admin.delete(address(made))
    assert not proof_checks.record(claimed, step)
    assert proof_checks.find_due(now + 60, 1) == []


def test_a_wish_makes_a_look_due_once_a_minute(admin: Client) -> None:
    made = reserved(admin)
    assert found("absent", made)
    assert proof_checks.find_due(clock.seconds(), 1) == []
    answer = admin.post(f"{address(made)}/verify", None)
    assert (answer.status, answer.json) == (202, admin.get(address(made)).json)
    assert [it.id for it in proof_checks.find_due(clock.seconds(), 1)] == [made["id"]]
    again = admin.post(f"{address(made)}/verify", {})
    wait = int(again.headers["retry-after"])
    assert 1 < wait <= 60
    assert_refused(again, 429, "rate_limited", f"A check was requested less than a minute ago: wait {wait} seconds.")
    below = reserved(admin, TEAM)
    sentence = "The domain is below the operator's domain for tunnels, so no proof is necessary."
    assert_refused(admin.post(f"{address(below)}/verify", None), 409, "conflict", sentence, {})


def test_the_certificate_is_changed_and_taken_away(admin: Client) -> None:
    made = reserved(admin, TEAM, certificate_id=CERTIFICATE, proxy_protocol=True)
    assert made["certificate"] == {"id": CERTIFICATE, "uri": CERTIFICATE_URI}
    assert made["proxy_protocol"] is True
    same = {"description": "", "certificate_id": None, "region": "eu", "certificate_management_policy": None}
    assert admin.patch(address(made), same).json == made
    assert admin.delete(f"{address(made)}/certificate").status == 204
    assert admin.delete(f"{address(made)}/certificate_management_policy").status == 204
    assert admin.get(address(made)).json == {**made, "certificate": None}
    for what in ("certificate", "certificate_management_policy"):
        assert admin.delete(f"{PATH}/rd_{'0' * 27}/{what}").status == 404


def test_a_certificate_that_was_taken_away_can_be_deleted(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRICT_REFERENCES", "true")
    certificate = admin.create("/tls_certificates", samples.BODIES["/tls_certificates"](admin))["id"]
    made = reserved(admin, TEAM, certificate_id=certificate)
    assert admin.delete(f"{address(made)}/certificate").status == 204
    assert admin.delete(f"/tls_certificates/{certificate}").status == 204


@pytest.mark.parametrize(
    ("created", "changed"),
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
    admin: Client, created: dict[str, Any], changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCP_PORTS", "20000-20002")
    made = reserved(admin, TEAM, **created)
    body = {name: made["id"] if name == "id" else value for name, value in changed.items()}
    after = {"description": "d", "metadata": "m", "certificate": {"id": CERTIFICATE, "uri": CERTIFICATE_URI}}
    assert admin.patch(address(made), body).json == admin.get(address(made)).json == {**made, **after}
    assert admin.patch(address(made), {"resolves_to": []}).json == {**made, **after}
    for what in ("/certificate", "/certificate_management_policy", ""):
        assert admin.delete(f"{address(made)}{what}").status == 204
    port = admin.create("/reserved_addrs", {"region": "us", "description": "x", "metadata": ""})
    same = admin.patch(f"/reserved_addrs/{port['id']}", {"id": port["id"], "description": "y"})
    assert same.json == {**port, "description": "y"}
    assert admin.delete(f"/reserved_addrs/{port['id']}").status == 204


def test_without_a_domain_of_tunnels_only_others_are_reserved(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TUNNEL_DOMAIN")
    assert reserved(admin)["cname_target"] is None
    sentence = "No ports can be reserved here: the operator has not set TCP_PORTS."
    assert_refused(admin.post("/reserved_addrs", {}), 409, "conflict", sentence, {})


def test_a_reservation_a_tunnel_an_edge_and_a_page_take_the_same_calls(admin: Client, stranger: Client) -> None:
    def taken(number: int) -> list[list[str]]:
        with calls() as reserving:
            reserved(admin, f"r{number}.{D}")
        with calls() as claiming:
            reserved(admin, f"r{number}.example.com")
        with calls() as opening:
            tunnels.close_tunnel(admin.account, opened(admin.account, name=f"t{number}.{D}"))
        with calls() as listening:
            admin.create("/edges/https", {"hostports": [f"e{number}.{D}:443", f"e{number}.example.com:443"]})
        with calls() as listing:
            admin.get(f"{PATH}?limit=10")
        with calls() as looking:
            proof_checks.find_due(clock.seconds() - 3600, 512)
        return [reserving, claiming, opening, listening, listing, looking]

    taken(0)
    before = taken(1)
    for number in range(20):
        reserved(stranger, f"s{number}.{D}")
        reserved(admin, f"s{number}.example.com")
    assert taken(2) == before
