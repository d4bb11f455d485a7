"""What a deployment checks in the table: the settings of names, and that no record is of 1.x."""

from collections.abc import Iterator

import pytest

from chalicelib.model.names import base_names
from chalicelib.storage.client import aws
from infra import CommandError
from infra.deploy import service


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    base_names.forget_settings()
    base_names.check_given_settings("a.example", "1-9")
    yield
    base_names.forget_settings()


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"TunnelDomain": "A.example", "TcpPorts": "1-9"}, ""),
        (
            {"TunnelDomain": "b.example", "TcpPorts": "1-9"},
            "TUNNEL_DOMAIN=a.example, but the settings are TUNNEL_DOMAIN=b.example: ",
        ),
        ({"TunnelDomain": "a.example"}, "TCP_PORTS=1-9, but the settings are TCP_PORTS=unset: "),
        ({"TableName": "none-yet", "TunnelDomain": "b.example"}, ""),
    ],
)
def test_what_differs_is_said(parameters: dict[str, str], expected: str) -> None:
    sentence = service.settings_difference("tunnel-edge", parameters)
    assert sentence.startswith(f"The table stores {expected}") if expected else not sentence


def test_a_table_with_an_account_of_1_x_is_refused() -> None:
    account = {"scope": {"S": "accounts"}, "id": {"S": "acct_1"}, "body": {"M": {}}}
    service.require_supported_table("tunnel-edge")
    service.require_supported_table("none-yet")
    aws.client("dynamodb").put_item(TableName="tunnel-edge", Item=account)
    with pytest.raises(CommandError, match="The table tunnel-edge has records of"):
        service.require_supported_table("tunnel-edge")


def test_what_is_no_domain_is_refused() -> None:
    with pytest.raises(CommandError, match="TunnelDomain=a_b cannot be used: it "):
        service.settings_difference("tunnel-edge", {"TunnelDomain": "a_b"})
