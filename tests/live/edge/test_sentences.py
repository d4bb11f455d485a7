"""What `python -m edge` says in one sentence where it cannot run as it is set up."""

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from edge.process.settings import from_environment
from tests.conftest import ROOT


def said(folder: Path, *arguments: str, **settings: str) -> str:
    """Return its stderr, after an exit with status 1."""
    environment = {**os.environ, "EDGE_DIR": str(folder / "edge"), **settings}
    command = [sys.executable, "-m", "edge", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"SSH_PORT": "0"}, "SSH_PORT=0 is not a port: choose one from 1 to 65535.\n"),
        ({"HOP_PORT": "65536"}, "HOP_PORT=65536 is not a port: choose one from 0 to 65535.\n"),
        ({"EDGE_CERTIFICATE": "a.pem"}, "EDGE_CERTIFICATE and EDGE_KEY belong together: set both or neither.\n"),
        (
            {"DNS_SERVERS": "127.0.0.1:5353,ns.example"},
            "DNS_SERVERS names ns.example, which is not an address: write 127.0.0.1:5353 or [::1]:53.\n",
        ),
        (
            {"PROXY_PROTOCOL_FROM": "10.0.0.0/8,10.0.0.1/8"},
            "PROXY_PROTOCOL_FROM names 10.0.0.1/8, which is not a network: write 10.0.0.0/8.\n",
        ),
        (
            {"TUNNEL_DOMAIN": "tunnels"},
            "TUNNEL_DOMAIN=tunnels is invalid: it must be a domain, for example app.example.com or *.example.com.\n",
        ),
        ({"DNS_SERVERS": "127.0.0.1:0"}, "DNS_SERVERS=0 is not a port: choose one from 1 to 65535.\n"),
        ({"EDGE_KEY": "a.pem"}, "EDGE_CERTIFICATE and EDGE_KEY belong together: set both or neither.\n"),
    ],
)
def test_a_setting_that_cannot_be_is_named(tmp_path: Path, settings: dict[str, str], sentence: str) -> None:
    assert said(tmp_path, **settings) == sentence


@pytest.mark.parametrize(("given", "folder"), [({"LINK_DIR": "near"}, Path.cwd() / "near"), ({}, Path("/edge"))])
def test_the_socket_of_a_gateway_is_where_it_is_said(given: dict[str, str], folder: Path) -> None:
    settings = from_environment({"EDGE_DIR": "/edge", **given})
    assert settings.link_socket("gw-1") == folder / "gw-1.sock"


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_port_that_another_process_has_is_named(tmp_path: Path, family: int, host: str) -> None:
    with socket.create_server((host, 0), family=family) as other:
        port = other.getsockname()[1]
        sentence = f"Port {port} cannot be used (Address already in use): choose another with SSH_PORT=….\n"
        assert said(tmp_path, EDGE_HOST=host, SSH_PORT=str(port)) == sentence


def test_a_second_edge_in_the_folder_of_another_says_so(tmp_path: Path) -> None:
    (folder := tmp_path / "edge").mkdir()
    with (folder / "edge.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert said(tmp_path) == f"Another edge uses {folder}: end it, or choose another with EDGE_DIR=….\n"


def test_the_domain_is_kept_in_its_normal_form() -> None:
    assert from_environment({"TUNNEL_DOMAIN": "Tunnels.Example.COM."}).tunnel_domain == "tunnels.example.com"


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("", ()),
        ("127.0.0.1", (("127.0.0.1", 53),)),
        ("127.0.0.1:5353, 127.0.0.2:5353", (("127.0.0.1", 5353), ("127.0.0.2", 5353))),
        ("[::1]:5353,[::1]", (("::1", 5353), ("::1", 53))),
    ],
)
def test_name_servers_are_set_by_address(text: str, servers: tuple[tuple[str, int], ...]) -> None:
    assert from_environment({"DNS_SERVERS": text}).dns_servers == servers
