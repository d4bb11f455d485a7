"""Which tunnels belong to which groups, by all labels of a group and within one account."""

from collections.abc import Mapping

import pytest

from chalicelib.model.edges.backends import TunnelGroup
from chalicelib.model.edges.served import ServedBackend
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.plan.groups import Groups
from tests.edge.plan.values import GROUP, A, B
from tests.edge.plan.worlds import weighted

WEB, EU = {"app": "web"}, {"app": "web", "region": "eu"}
TUNNELS = {
    "tn_3": (A, WEB),
    "tn_1": (A, EU),
    "tn_2": (A, {"region": "eu"}),
    "tn_4": (A, {"app": "other", "region": "eu", "zone": "1"}),
    "tn_5": (B, EU),
}


def group_of(labels: Mapping[str, str], account: str = A) -> ServedBackend:
    return ServedBackend(account, GROUP, TunnelGroup(labels=labels))


@pytest.mark.parametrize(
    ("group", "members"),
    [
        (group_of(WEB), ["tn_1", "tn_3"]),
        (group_of(EU), ["tn_1"]),
        (group_of(dict(reversed(EU.items()))), ["tn_1"]),
        (group_of({"region": "eu"}), ["tn_1", "tn_2", "tn_4"]),
        (group_of(EU, B), ["tn_5"]),
        (group_of({"zone": "1", "app": "web"}), []),
        (group_of({"zone": "2"}), []),
        (group_of({}), []),
        (ServedBackend(A, GROUP, None), []),
        (weighted(GROUP, {"bkdtg_2": 1}), []),
    ],
)
def test_a_group_has_the_tunnels_of_its_account_that_carry_all_its_labels(
    group: ServedBackend, members: list[str]
) -> None:
    groups = Groups()
    tunnels = {id: ServedTunnel(account, id, "gw-1", "", labels=labels) for id, (account, labels) in TUNNELS.items()}
    for it in tunnels.values():
        groups.put(it)
    groups.put(group)
    assert [it.id for it in groups.members(group)] == members
    assert [id for id, it in sorted(tunnels.items()) if groups.groups_of(it)] == members
    for it in tunnels.values():
        groups.drop(it)
    assert groups.members(group) == []
    groups.drop(group)
    assert [id for id, it in tunnels.items() if groups.groups_of(it)] == []
