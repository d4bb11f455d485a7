"""SSH clients other than OpenSSH sign in at the gateway and open tunnels."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.edge.link_clients import Link, echoing, serving
from tests.live.edge.running import Edge, Key, Ssh, ssh_command, until
from tests.needs import need

Command = Callable[[Edge, Key, str], list[str]]  # that opens a tunnel "host:port:target_host:target_port"


def openssh(edge: Edge, key: Key, forwarding: str) -> list[str]:
    need("ssh")
    return [*ssh_command(edge.settings.ssh_port, key, "-N", "-R", forwarding), "127.0.0.1"]


def openssh_without_post_quantum(edge: Edge, key: Key, forwarding: str) -> list[str]:
    return [*openssh(edge, key, forwarding), "-o", "KexAlgorithms=curve25519-sha256"]


def dropbear(edge: Edge, key: Key, forwarding: str) -> list[str]:
    need("dropbear")
    converted = key.file.with_suffix(".dropbear")
    subprocess.run(["dropbearconvert", "openssh", "dropbear", key.file, converted], check=True, capture_output=True)
    port = str(edge.settings.ssh_port)
    return ["dbclient", "-y", "-y", "-T", "-N", "-p", port, "-i", str(converted), "-R", forwarding, "127.0.0.1"]


def putty(edge: Edge, key: Key, forwarding: str) -> list[str]:
    need("putty", "ssh")
    converted, port = key.file.with_suffix(".ppk"), str(edge.settings.ssh_port)
    subprocess.run(["puttygen", key.file, "-O", "private", "-o", converted], check=True)
    host_key = edge.settings.directory / "ssh_host_ed25519_key"
    output = subprocess.run(["ssh-keygen", "-lf", host_key], check=True, capture_output=True, text=True).stdout
    trust = ["-batch", "-hostkey", output.split()[1]]
    return ["plink", "-ssh", *trust, "-N", "-P", port, "-i", str(converted), "-R", forwarding, "putty@127.0.0.1"]


def libssh(edge: Edge, key: Key, forwarding: str) -> list[str]:
    need("libssh")
    client = str(Path(__file__).parent / "libssh_client.py")
    return [sys.executable, client, str(edge.settings.ssh_port), str(key.file), *forwarding.split(":")[:2]]


@pytest.mark.parametrize("command", [openssh, openssh_without_post_quantum, dropbear, putty, libssh])
def test_each_client_signs_in_and_opens_a_tunnel(edge: Edge, command: Command) -> None:
    with serving(echoing) as port:
        client = Ssh(command(edge, edge.key("acct_A"), f"other:80:127.0.0.1:{port}"))
        edge.clients.append(client)
        until(lambda: len(edge.store.online) == 1 or client.is_over)
        assert not client.is_over, client.lines
        (tunnel,) = edge.store.online

        link = Link(edge, tunnel)
        link.send(b"hello" * 1000)
        link.end()
        assert link.read() == b"hello" * 1000
