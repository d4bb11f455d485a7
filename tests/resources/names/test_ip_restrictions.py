"""The module `ip_restriction` of reserved domains and addresses: what it shows and holds, and who can name what."""

import pytest

from tests.names import TEAM
from tests.refusals import assert_refused
from tests.transports import Client

pytestmark = pytest.mark.usefixtures("tunnel_domain")
each_path = pytest.mark.parametrize("path", ["/reserved_domains", "/reserved_addrs"])


def reserve(client: Client, path: str) -> str:
    """Return the address of the module on a new reservation."""
    body = {"domain": TEAM} if path == "/reserved_domains" else {}
    return f"{path}/{client.create(path, body)['id']}/ip_restriction"


@pytest.fixture(autouse=True)
def _ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCP_PORTS", "20000-20002")
    monkeypatch.setenv("STRICT_REFERENCES", "true")


@each_path
def test_a_reservation_has_the_module(admin: Client, path: str) -> None:
    module, policy = reserve(admin, path), admin.create("/ip_policies", {})
    parent = module.removesuffix("/ip_restriction")
    before = admin.get(parent).json
    assert_refused(admin.get(module), 404, "not_found", "The module ip_restriction is not set.", {})

    body = admin.put(module, {"ip_policy_ids": [policy["id"]]}).json

    assert body == {"enabled": True, "ip_policies": [{"id": policy["id"], "uri": policy["uri"]}]}
    assert admin.get(module).json == body
    assert admin.get(parent).json == before
    assert admin.patch(parent, {"description": "d"}).status == 200
    assert admin.get(module).json == body
    disabled = admin.put(module, {"enabled": False, "ip_policy_ids": [policy["id"]]}).json
    assert disabled == {**body, "enabled": False}
    assert admin.delete(module).status == 204
    assert admin.get(module).status == 404


@each_path
def test_a_reservation_holds_its_policies(admin: Client, path: str) -> None:
    module, policy = reserve(admin, path), admin.create("/ip_policies", {})["id"]
    admin.put(module, {"ip_policy_ids": [policy]})
    refusal = admin.delete(f"/ip_policies/{policy}")
    assert (refusal.status, module.split("/")[2] in refusal.text) == (409, True)

    assert admin.delete(module.removesuffix("/ip_restriction")).status == 204

    assert admin.delete(f"/ip_policies/{policy}").status == 204


@each_path
def test_policies_and_reservations_of_others_are_refused(admin: Client, stranger: Client, path: str) -> None:
    module, stranger_policy = reserve(admin, path), stranger.create("/ip_policies", {})["id"]
    refusal = admin.put(module, {"ip_policy_ids": [stranger_policy]})
    assert (refusal.status, refusal.json["error_code"]) == (400, "unknown_reference")
    assert stranger.put(module, {"ip_policy_ids": [stranger_policy]}).status == 404
    assert admin.get(module).status == 404


@each_path
def test_a_reservation_that_does_not_exist_gets_no_module(
    admin: Client, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STRICT_REFERENCES")
    id = "rd_2TfXCSmBHSvnQdwvT1fBtQ1mFEY" if path == "/reserved_domains" else "ra_2TfXCSmBHSvnQdwvT1fBtQ1mFEY"
    policy = admin.create("/ip_policies", {})["id"]
    assert admin.put(f"{path}/{id}/ip_restriction", {"ip_policy_ids": [policy]}).status == 404


@each_path
def test_events_show_the_policies(admin: Client, path: str) -> None:
    module, policy = reserve(admin, path), admin.create("/ip_policies", {})["id"]
    admin.put(module, {"ip_policy_ids": [policy]})
    (event,) = admin.get("/audit_events?limit=1").json["audit_events"]
    assert event["action"].endswith(".replace")
    assert policy in f"{event['details']}{event.get('changes')}"
