"""Demonstration tunnels and their labels."""

import pytest

from chalicelib import ids
from chalicelib.operator import tunnels
from tests.operator.commands import Output, create_account, expect_failure
from tests.transports import Client, InProcess


def test_a_demonstration_tunnel_with_labels_is_in_the_groups_that_they_match(
    transport: InProcess, capsys: Output
) -> None:
    account, admin, token = create_account(capsys)
    client = Client(transport, account=account, user=admin).with_token(token)
    group = client.create("/backends/tunnel_group", {"labels": {"app": "web"}})
    tunnel = client.get(f"/tunnels/{tunnels.open_demo_tunnel(account, dict([tunnels.parse_label('app=web')]))}").json
    assert (tunnel["labels"], tunnel["backends"]["id"]) == ({"app": "web"}, group["id"])
    bare = client.get(f"/tunnels/{tunnels.open_demo_tunnel(account, {})}").json
    assert "labels" not in bare
    assert bare["public_url"].endswith(".tunnels.example")


@pytest.mark.parametrize("text", ["app", "=web", ""])
def test_a_label_of_another_form_is_a_usage_error(capsys: Output, text: str) -> None:
    assert expect_failure("tunnels", "demo", ids.new("acct"), "--label", text) == 2
    assert capsys.readouterr().err.endswith(f"argument --label: {text!r} is not a label: write one like app=web\n")
