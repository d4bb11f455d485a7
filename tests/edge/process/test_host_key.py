"""The gateway's public SSH host key, as ssh-keygen shows it."""

import subprocess
from pathlib import Path

import pytest

from edge.process import host_key
from edge.process.host_key import HostKey
from edge.process.settings import Settings

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBHCg1oFSjS7hqIyqvaAxSoUnlxmIXGoyRyZtBR6UYPA"
FINGERPRINT = "SHA256:C9+1FeHWP29fYGRQXEhvVN9Y9YLUTBavZr4uKz1KTw0"


@pytest.mark.parametrize(("port", "host"), [(22, "192.0.2.1"), (2222, "[192.0.2.1]:2222")])
def test_the_key_of_a_gateway_is_read_from_its_folder(tmp_path: Path, port: int, host: str) -> None:
    settings = Settings(directory=tmp_path, host="192.0.2.1", ssh_port=port)
    host_key.write(settings, f"{KEY} a comment")
    assert host_key.read(settings) == HostKey(FINGERPRINT, f"{host} {KEY}")
    file = tmp_path / "ssh_host_ed25519_key.pub"
    assert (file.read_text(), file.stat().st_mode & 0o777) == (f"{KEY} a comment\n", 0o644)


def test_gateways_behind_one_address_read_the_same_key_from_a_file(tmp_path: Path) -> None:
    settings = Settings(directory=tmp_path, ssh_host_key="/etc/tunnel-edge/ssh_host_ed25519_key")
    assert host_key.private_file(settings) == Path("/etc/tunnel-edge/ssh_host_ed25519_key")
    assert host_key.private_file(Settings(directory=tmp_path)) == tmp_path / "ssh_host_ed25519_key"
    host_key.write(settings, KEY)  # beside the other files of the edge, since /etc may be read-only
    assert host_key.read(settings).fingerprint == FINGERPRINT


def test_a_folder_without_a_key_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        host_key.read(Settings(directory=tmp_path))


@pytest.mark.needs("ssh")
def test_the_fingerprint_is_the_one_of_ssh_keygen(tmp_path: Path) -> None:
    settings = Settings(directory=tmp_path)
    host_key.write(settings, KEY)
    file = tmp_path / "ssh_host_ed25519_key.pub"
    output = subprocess.run(["ssh-keygen", "-l", "-f", file], check=True, capture_output=True, text=True).stdout
    assert output.split()[1] == host_key.read(settings).fingerprint
