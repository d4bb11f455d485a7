"""Names of tunnels, what a gateway carries, and what the operator may do with both."""

import pytest

from chalicelib import __main__ as operator
from chalicelib.model.tunnels import online_tunnels, tunnels
from chalicelib.model.tunnels.tunnels import ServedTunnel
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from tests.transports import Client
from tests.tunnels import NAME, open_agent_tunnel

Output = pytest.CaptureFixture[str]


def online(account: str) -> list[str]:
    return [item.id for item in online_tunnels.list_online(account)]


def list_tunnel_ids(gateway: str = "gw-1") -> list[str]:
    return [tunnel.id for tunnel in online_tunnels.read_tunnels_of_gateway(gateway)]


def test_no_response_shows_the_gateway_and_the_credential(admin: Client) -> None:
    id = open_agent_tunnel(admin.account)
    assert not {"gateway", "credential"} & admin.get(f"/tunnels/{id}").json.keys()
    assert "gw-1" not in admin.get("/tunnels").text


def test_what_was_carried_before_there_was_a_protocol_is_https(admin: Client) -> None:
    id = open_agent_tunnel(admin.account)
    for scope, lacking in (
        (f"{admin.account}#/tunnels", ["proxy_protocol"]),
        ("edge#/gateways/gw-1/tunnels", ["proto", "proxy_protocol"]),
    ):
        sets = {f"body.{field}": None for field in lacking}
        dynamodb.do(Write.update(scope, id, Condition("attribute_exists(#id)"), sets=sets))
    now = ServedTunnel(admin.account, id, "gw-1", NAME)
    assert (online_tunnels.read_tunnels_of_gateway("gw-1"), online_tunnels.read(admin.account, id)) == ([now], now)


def test_a_closed_tunnel_leaves_no_name_and_nothing_carried(admin: Client, stranger: Client) -> None:
    id = open_agent_tunnel(admin.account)
    assert tunnels.close_tunnel(admin.account, id)
    assert list_tunnel_ids() == []
    assert online(stranger.account) == []
    open_agent_tunnel(stranger.account)


def test_a_credential_takes_its_own_name_over_and_the_first_tunnel_is_missing(admin: Client) -> None:
    first = open_agent_tunnel(admin.account)
    second = open_agent_tunnel(admin.account, gateway="gw-2")
    assert online(admin.account) == [second]
    assert not tunnels.renew_lease(admin.account, first, lease=60)
    served = [ServedTunnel(admin.account, id, "gw-1", NAME) for id in (first, second)]
    assert online_tunnels.find_missing(served) == {first}


def test_the_operator_lists_and_ends_tunnels(admin: Client, capsys: Output) -> None:
    id = open_agent_tunnel(admin.account)
    operator.main(["tunnels", "list"])
    started = admin.get(f"/tunnels/{id}").json["started_at"]
    assert capsys.readouterr().out == f"{admin.account} {id} {started} sshcr_1 https://{NAME}\n"
    operator.main(["tunnels", "end", id])
    assert (online(admin.account), list_tunnel_ids()) == ([], [])
    for tunnel_id, sentence in ((id, f"No tunnel {id} is online."), ("tn_x", "tn_x is not the id of a tunnel (tn_…).")):
        with pytest.raises(SystemExit) as error:
            operator.main(["tunnels", "end", tunnel_id])
        assert error.value.code == sentence


def test_the_hostports_of_an_edge_and_the_key_of_an_authority_lead_to_them(admin: Client) -> None:
    from chalicelib.model.edges import edges

    edge = admin.create("/edges/tcp", {"hostports": ["a.example.com:1", "b.example.com:2"]})
    account = admin.account
    assert edges.find_by_hostport(account, "a.example.com:1") == edge["id"]
    admin.patch(f"/edges/tcp/{edge['id']}", {"hostports": ["b.example.com:2", "c.example.com:3"]})
    assert edges.find_by_hostport(account, "a.example.com:1") is None
    assert edges.find_by_hostport(account, "b.example.com:2") == edge["id"]
    assert edges.find_by_hostport(account, "c.example.com:3") == edge["id"]
    assert edges.find_by_hostport("acct_other", "c.example.com:3") is None
