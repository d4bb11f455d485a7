"""The accounts that a change of a gateway reaches."""

import pickle

from edge.control.names.gateway_users import GatewayUsers


def test_a_gateway_has_the_accounts_that_use_it_now() -> None:
    users = GatewayUsers()
    users.put("a", ["gw-1", "gw-2"])
    users.put("b", ["gw-2"])
    assert [users.of(it) for it in ("gw-1", "gw-2", "gw-3")] == [{"a"}, {"a", "b"}, set()]
    users.put("a", ["gw-3"])
    users.put("b", ())
    assert [users.of(it) for it in ("gw-1", "gw-2", "gw-3")] == [set(), set(), {"a"}]


def test_an_account_without_gateways_leaves_nothing() -> None:
    users = GatewayUsers()
    before = pickle.dumps(users)
    users.put("a", ["gw-1"])
    users.remove("a")
    assert pickle.dumps(users) == before
