"""A machine at home, by OpenSSH through a port of the edge: its own client, its own server."""

import hashlib
import random
import subprocess
from pathlib import Path

import pytest

from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, Key, listens, ssh_command, until
from tests.live.ssh import sshd

pytestmark = [needs_envoy, pytest.mark.needs("ssh", "sshd")]


def test_a_session_and_a_file_pass_through_a_port(edge: Edge, folder: Path) -> None:
    key, file, port = Key.make(folder, "visitor"), folder / "file", edge.settings.tcp_ports[0]
    file.write_bytes(random.randbytes(5_000_000))
    (at_home := folder / "home").mkdir()
    with sshd.running(at_home) as server:
        (at_home / "authorized_keys").write_text(key.file.with_suffix(".pub").read_text())
        edge.ssh(edge.key("acct_A"), "-R", f"{port}:127.0.0.1:{server.port}").wait_for(
            f"tunnels.localhost:{port} is online"
        )
        until(lambda: listens(port))

        def run(command: str) -> bytes:
            target = [*ssh_command(port, key), f"{sshd.USER}@127.0.0.1", command]
            with file.open("rb") as stdin:
                result = subprocess.run(target, stdin=stdin, capture_output=True, timeout=30)
            assert result.returncode == 0, result.stderr
            return result.stdout

        assert run("echo hello; exit 0") == b"hello\n"
        assert run("sha256sum").split()[0].decode() == hashlib.sha256(file.read_bytes()).hexdigest()
        assert run("cat") == file.read_bytes()
