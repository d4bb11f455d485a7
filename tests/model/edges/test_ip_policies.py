"""Rules of IP policies: networks in any spelling, whom they refuse, and malformed records."""

from ipaddress import ip_address
from random import Random

import pytest

from chalicelib.model.edges import ip_policies
from chalicelib.model.edges.ip_policies import Rules, ServedPolicy
from chalicelib.model.edges.modules.ip_restriction import IpRestrictionModule
from chalicelib.model.edges.policy_expressions import AnyOf
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item
from edge.plan import traffic_policies
from tests.edge import drawn_restrictions

MODULE = IpRestrictionModule(ip_policy_ids=["ipp_a", "ipp_b"])
NETWORKS = {
    "192.0.2.1": "192.0.2.1/32",
    "192.0.2.0/24": "192.0.2.0/24",
    "::ffff:192.0.2.1": "192.0.2.1/32",
    "::ffff:c000:201/128": "192.0.2.1/32",
    "::FFFF:0:0/96": "0.0.0.0/0",
    "2001:DB8:0::/48": "2001:db8::/48",
    "::/0": "::/0",
}


@pytest.mark.parametrize(("text", "network"), NETWORKS.items())
def test_a_network_has_one_meaning_in_each_spelling(text: str, network: str) -> None:
    assert str(ip_policies.parse_cidr(text)) == network


@pytest.mark.parametrize("text", ["", "a", "10.0.0.1/8", "010.0.0.1", "1.2.3", "::1%lo", "::ffff:0:0/95", "1.2.3.4/33"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be an IP address"):
        ip_policies.parse_cidr(text)


def test_random_policies_refuse_whom_they_should() -> None:
    chance = Random(1)
    for _ in range(300):
        restriction = drawn_restrictions.draw(chance)
        verdicts = traffic_policies.decide(AnyOf(restriction.refusals), 0, "")
        for visitor in drawn_restrictions.VISITORS:
            address = ip_address(visitor)
            is_admitted = next(
                verdict.is_admitted for verdict in verdicts if any(address in network for network in verdict.networks)
            )
            assert is_admitted == restriction.admits(visitor), (restriction, visitor)


def test_policies_that_are_gone_or_malformed_are_described() -> None:
    missing, malformed = ip_policies.describe_problems(MODULE, {"ipp_b": None}).split(". The")
    assert missing == "The IP policy ipp_a does not exist: no visitor is admitted"
    assert malformed == " record of the IP policy ipp_b is malformed: no visitor is admitted."
    assert ip_policies.describe_problems(MODULE, {"ipp_a": Rules(), "ipp_b": Rules()}) == ""
    assert ip_policies.describe_problems(None, {}) == ""


@pytest.mark.parametrize(
    "rules", ["allow ::/0", {"ipr_a": "::/0"}, {"ipr_a": "admit ::/0"}, {"ipr_a": "deny 10.0.0.1/8"}, {"ipr_a": 1}]
)
def test_malformed_rules_are_not_read(rules: object) -> None:
    with pytest.raises(MalformedRecord):
        ServedPolicy.of(Item("acct_a#/ip_policies", "ipp_a", {}, unseen={"rules": rules}))
