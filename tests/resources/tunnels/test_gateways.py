"""GET /gateways: where SSH clients connect, and the host keys that they verify."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from bench import calls
from chalicelib.model.names import base_names
from chalicelib.model.tunnels import gateways
from chalicelib.model.tunnels.gateways import Gateway
from edge.process import settings
from edge.process.settings import Settings
from tests.samples import public_key
from tests.transports import Client

ONE, OTHER = sorted(public_key() for _ in range(2))
WEST = Gateway("gw-a", "192.0.2.1", 7000, region="west", ssh_address="west.example.com:22", host_keys=(ONE,))
ALSO_WEST = replace(WEST, id="gw-b", host="192.0.2.2", host_keys=(OTHER,))
EAST = replace(WEST, id="gw-c", region="east", ssh_address="east.example.com:2222")
OLD = Gateway("gw-d", "192.0.2.4", 7000)  # of an earlier version, which announces no SSH address


@contextmanager
def announce(*new_gateways: Gateway, lease: int = 60) -> Iterator[None]:
    for gateway in new_gateways:
        gateways.announce(gateway, lease=lease)
    try:
        yield
    finally:
        for gateway in new_gateways:
            gateways.leave(gateway.id)
            gateways.remove(gateway.id)


def expected_list(*entries: tuple[str, str, list[str]]) -> dict[str, object]:
    gateways = [{"address": address, "region": region, "host_keys": keys} for address, region, keys in entries]
    return {"gateways": gateways, "tunnel_domain": base_names.domain(), "tcp_ports": base_names.ports_text()}


def test_every_key_sees_the_gateways_that_are_up(admin: Client) -> None:
    key = admin.create("/api_keys", {"owner_id": admin.user, "scopes": ["backends:read"]})
    limited = admin.with_token(key["token"])
    assert limited.get("/gateways").json == expected_list()
    with announce(WEST, ALSO_WEST, EAST, OLD):
        east, west = ("east.example.com:2222", "east", [ONE]), ("west.example.com:22", "west", [ONE, OTHER])
        answer = limited.get("/gateways")
        assert (answer.status, answer.json) == (200, expected_list(east, west))
        gateways.leave(EAST.id)
        assert limited.get("/gateways").json == expected_list(west)
    with announce(WEST, lease=-1):
        assert limited.get("/gateways").json == expected_list()


def test_settings_that_are_unset_are_empty(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TUNNEL_DOMAIN", raising=False)
    monkeypatch.setenv("TCP_PORTS", "20000-20099")
    expected = {"gateways": [], "tunnel_domain": "", "tcp_ports": "20000-20099"}
    assert admin.get("/gateways").json == expected


def test_the_list_is_one_query(admin: Client) -> None:
    admin.get("/gateways")
    with announce(WEST, EAST), calls.recording("dynamodb") as recording:
        assert len(admin.get("/gateways").json["gateways"]) == 2
    reads = [call.operation for call in recording if call.kind == "read"]
    assert reads[-1:] == ["Query"]
    assert reads.count("Query") == 1


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        ({}, "127.0.0.1:2222"),
        ({"SSH_PORT": "22"}, "127.0.0.1:22"),
        ({"EDGE_HOST": "::1"}, "127.0.0.1:2222"),
        ({"EDGE_HOST": "0.0.0.0", "TUNNEL_DOMAIN": "t.example.com"}, "t.example.com:2222"),
        ({"EDGE_HOST": "192.0.2.9", "TUNNEL_DOMAIN": "t.example.com", "SSH_PORT": "22"}, "t.example.com:22"),
        ({"SSH_ADDRESS": "ssh.example.com:22"}, "ssh.example.com:22"),
    ],
    ids=str,
)
def test_the_address_of_a_gateway(environment: dict[str, str], address: str) -> None:
    assert settings.from_environment(environment).public_ssh_address == address
    assert Settings().public_ssh_address == "127.0.0.1:2222"
