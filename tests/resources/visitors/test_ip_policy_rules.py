"""Rules of IP policies: their action, and the networks that are refused."""

import pytest

from tests.refusals import assert_refused
from tests.transports import Client, refusal

POLICIES, RULES = "/ip_policies", "/ip_policy_rules"


def test_an_action_is_required_unless_the_policy_has_one(admin: Client, stranger: Client) -> None:
    without, denying = admin.create(POLICIES, {"action": ""}), admin.create(POLICIES, {"action": "deny"})
    assert "action" not in without
    assert denying["action"] == "deny"
    rule = "must be 'allow' or 'deny', since the policy has no action"
    answer = admin.post(RULES, {"ip_policy_id": without["id"], "cidr": "10.0.0.1"})
    assert (answer.status, answer.json) == (400, refusal(answer, action=rule))
    assert admin.create(RULES, {"ip_policy_id": denying["id"], "cidr": "10.0.0.1", "action": None})["action"] == "deny"
    assert (
        admin.create(RULES, {"ip_policy_id": denying["id"], "cidr": "10.0.0.2", "action": "allow"})["action"] == "allow"
    )
    answer = stranger.post(RULES, {"ip_policy_id": denying["id"], "cidr": "10.0.0.1", "action": "allow"})
    unknown = {"ip_policy_id": f"must be an id listed at {POLICIES}"}
    assert_refused(answer, 400, "unknown_reference", "'ip_policy_id' names no IP policy of this account.", unknown)


@pytest.mark.parametrize("cidr", ["", "10.0.0.1/8", "10.0.0.0/255.0.0.0", "example.com", "::1%lo", None, 1, "::/129"])
def test_other_networks_are_refused(admin: Client, cidr: object) -> None:
    id = admin.create(POLICIES, {})["id"]
    answer = admin.post(RULES, {"ip_policy_id": id, "cidr": cidr, "action": "allow"})
    assert (answer.status, {*answer.json["details"]}) == (400, {"operation_id", "cidr"})
