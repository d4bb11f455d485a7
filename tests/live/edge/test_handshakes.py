"""What the gateway offers in a handshake, and what it logs and says if a client does not get in."""

import contextlib
import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.edge.running import Edge, Ssh, running, ssh_command, until

Attempt = Callable[[Edge], None]


def test_a_hybrid_post_quantum_key_exchange_is_preferred(edge: Edge) -> None:
    with socket.create_connection(("127.0.0.1", edge.settings.ssh_port), 5) as connection:
        read = connection.makefile("rb")
        assert read.readline() == b"SSH-2.0-edge\r\n"
        connection.sendall(b"SSH-2.0-test\r\n")
        packet = read.read(int.from_bytes(read.read(4)))
    names = packet[22 : 22 + int.from_bytes(packet[18:22])].decode().split(",")
    assert names[0] == "mlkem768x25519-sha256"
    assert "curve25519-sha256" in names


def without_a_common_cipher(edge: Edge) -> None:
    options = ["-o", "Ciphers=chacha20-poly1305@openssh.com", "-N"]
    assert edge.ssh(edge.key("acct_A"), *options, terminal="-T").wait() == 255


def without_the_host_key(edge: Edge) -> None:
    command = [*ssh_command(edge.settings.ssh_port, edge.key("acct_A"), "-N"), "127.0.0.1"]
    strict = [argument.replace("StrictHostKeyChecking=no", "StrictHostKeyChecking=yes") for argument in command]
    assert Ssh(strict).wait() == 255


def with_another_protocol(edge: Edge) -> None:
    _send(edge, b"SSH-2.0-test\r\n" + b"\xff" * 100)


def with_names_of_bytes(edge: Edge) -> None:
    payload = b"\x14" + bytes(16) + b"".join(b"\x00\x00\x00\x01\xff" for _ in range(10)) + bytes(5)
    padding = 16 - (len(payload) + 5) % 8
    packet = bytes([padding]) + payload + bytes(padding)
    _send(edge, b"SSH-2.0-test\r\n" + len(packet).to_bytes(4) + packet)


def _send(edge: Edge, data: bytes) -> None:
    """Send bytes, and read until the gateway ends the connection."""
    with socket.create_connection(("127.0.0.1", edge.settings.ssh_port), 5) as connection:
        connection.sendall(data)
        with contextlib.suppress(ConnectionError):
            while connection.recv(1000):
                pass


@pytest.mark.parametrize(
    ("attempt", "reason"),
    [
        (without_a_common_cipher, "the handshake failed: No matching encryption algorithm found, sent aes128-gcm"),
        (without_the_host_key, "the client left during the handshake"),
        (with_another_protocol, "the handshake failed: "),
        (with_names_of_bytes, "the handshake failed: "),
    ],
)
def test_a_failed_handshake_is_logged_with_its_reason(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], attempt: Attempt, reason: str
) -> None:
    with running(tmp_path, with_envoy=False) as edge:
        for _ in range(5):  # a client that finds the fault itself may leave first
            attempt(edge)
            until(lambda: len(edge.gateway.sign_ins) == 0)
            (line,) = [json.loads(line) for line in capfd.readouterr().err.splitlines() if '"sign_in_' in line]
            if line["reason"].startswith(reason):
                break
    assert (line["event"], line["address"]) == ("sign_in_failed", "127.0.0.1")
    assert line["reason"].startswith(reason)
    assert len(line["reason"]) <= 1000


def test_a_health_check_that_only_connects_or_reads_the_version_is_not_logged(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with running(tmp_path, with_envoy=False) as edge:
        for data in (b"", b"SSH-2.0-check\r\n"):
            with socket.create_connection(("127.0.0.1", edge.settings.ssh_port), 5) as connection:
                connection.sendall(data)
                assert connection.recv(100).startswith(b"SSH-2.0-edge\r\n")
        until(lambda: len(edge.gateway.sign_ins) == 0)
    assert capfd.readouterr().err == ""
