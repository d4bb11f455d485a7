"""Who had a name at a time."""

import json

import pytest

from chalicelib import __main__ as operator
from chalicelib import clock, ids
from chalicelib.model.tunnels import online_tunnels, tunnels
from chalicelib.model.tunnels.tunnels import AgentTunnel
from tests.queries import calls
from tests.transports import Client
from tests.tunnels import NAME, OTHER

Output = pytest.CaptureFixture[str]


def _tunnel(address: str) -> AgentTunnel:
    return AgentTunnel(
        tunnel_session="ts_1",
        endpoint=ids.new("ep"),
        region="eu",
        proto="https",
        public_url=f"https://{NAME}",
        forwards_to=address,
        gateway="gw-1",
        credential="sshcr_1",
        address=address,
        client="SSH-2.0-test",
    )


def test_whoever_had_a_name_is_told_by_one_read_also_when_the_tunnel_has_closed(
    admin: Client, stranger: Client, capsys: Output
) -> None:
    before = clock.seconds() - 3600
    first = tunnels.open_tunnel(admin.account, _tunnel("192.0.2.1"), lease=60, name=NAME)
    tunnels.close_tunnel(admin.account, first)
    second = tunnels.open_tunnel(stranger.account, _tunnel("192.0.2.2"), lease=60, name=NAME)

    with calls() as operations:
        operator.main(["tunnels", "who", NAME.upper(), "--json"])
    assert operations == ["Query"]
    output = json.loads(capsys.readouterr().out)
    assert output == {
        "account": stranger.account,
        "tunnel": second,
        "credential": "sshcr_1",
        "address": "192.0.2.2",
        "client": "SSH-2.0-test",
        "gateway": "gw-1",
        "tunnel_session": "ts_1",
        "started_at": output["started_at"],
        "ended_at": "",
    }
    tunnels.close_tunnel(stranger.account, second)
    operator.main(["tunnels", "who", NAME, "--at", output["started_at"]])
    lines = capsys.readouterr().out.splitlines()
    assert f"account {stranger.account}" in lines
    assert f"tunnel {second}" in lines
    assert not any(line == "ended_at -" for line in lines)
    operator.main(["tunnels", "who", f"https://{NAME.upper()}:8443/login?next=%2F", "--at", output["started_at"]])
    assert f"tunnel {second}" in capsys.readouterr().out.splitlines()
    for name, moment, sentence in (
        (OTHER, "", f"No tunnel or edge had {OTHER} at that time or before."),
        (NAME, clock.rfc3339(clock.at(before)), f"No tunnel or edge had {NAME} at that time or before."),
        (NAME, "yesterday", "--at must be an RFC 3339 time, for example 2026-01-31T12:00:00Z."),
    ):
        with pytest.raises(SystemExit) as error:
            operator.main(["tunnels", "who", name, "--at", moment])
        assert error.value.code == sentence


def test_a_name_was_had_until_the_end_of_its_lease_where_nobody_closed_the_tunnel(
    admin: Client, capsys: Output
) -> None:
    id = tunnels.open_tunnel(admin.account, _tunnel("192.0.2.1"), lease=-5, name=NAME)
    online_tunnels.end_all_offline(admin.account)
    with pytest.raises(SystemExit) as error:
        operator.main(["tunnels", "who", NAME])
    assert str(error.value.code).startswith(
        f"No tunnel or edge had {NAME} at that time. {id} had the name before, until "
    )
