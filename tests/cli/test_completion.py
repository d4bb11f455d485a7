"""Completion in real shells: what a person gets who types a part of a command and presses Tab."""

import fcntl
import json
import os
import pty
import socket
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.cli.conftest import User
from tests.conftest import Served
from tests.needs import need

SHELLS = {
    "bash": (("bash", "--norc", "--noprofile", "-i"), "source <(te completion bash)"),
    "zsh": (("zsh", "-f", "-i"), "autoload -U compinit; compinit -u; bindkey -e; source <(te completion zsh)"),
    "fish": (("fish", "--no-config", "-i"), "te completion fish | source"),
}
_TAB, _HOME = "\t", "\x01"


def complete(user: User, shell: str, *lines: str) -> list[str]:
    """Return what becomes of lines at which a person presses Tab. The shell prints each of them."""
    command, setup = SHELLS[shell]
    terminal, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 300, 0, 0))
    environment = {**user.environment, "TERM": "xterm"}
    with subprocess.Popen(
        ["setsid", "--ctty", "--wait", *command],
        stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=user.home,
    ) as process:  # fmt: skip
        os.close(slave)
        keystrokes = "".join(f"{line}{_TAB}{_HOME}echo \n" for line in lines)
        os.write(terminal, f"{setup}\n{keystrokes}exit\n".encode())
        output = _read_until_end(terminal)
        process.kill()
    os.close(terminal)
    return [line.strip() for line in output.replace("\r", "\n").split("\n") if line.startswith("te ")][-len(lines) :]


def _read_until_end(terminal: int) -> str:
    content = b""
    try:
        while part := os.read(terminal, 65536):
            content += part
    except OSError:  # the shell has ended
        pass
    return content.decode(errors="replace")


@pytest.mark.parametrize("shell", [*SHELLS, "powershell"])
def test_each_shell_has_a_script(user: User, shell: str) -> None:
    script = user.run("completion", shell)
    assert (script.returncode, "_TE_COMPLETE" in script.stdout) == (0, True), script.stderr


@pytest.mark.timeout(120)
@pytest.mark.parametrize("shell", SHELLS)
def test_commands_flags_values_and_ids_are_completed(admin_user: User, shell: str) -> None:
    need(shell)
    backend_id = admin_user.run("backends", "http-response", "create", "-o", "id").stdout.strip()
    group = "te backends http-response"
    lines = (group[:-4], f"{group} create --stat", f"{group} list -o nd", f"{group} get {backend_id[:8]}")
    expected = [group, f"{group} create --status-code", f"{group} list -o ndjson", f"{group} get {backend_id}"]
    for _ in range(4):  # a busy machine may need more than 300 ms for the ids
        completed = complete(admin_user, shell, *lines)
        if completed == expected:
            break
    assert completed == expected


def test_a_service_that_is_silent_or_away_offers_no_ids(admin_user: User) -> None:
    need("bash")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (9, silent.getsockname()[1]):
            other_user = admin_user.with_settings(TE_URL=f"http://127.0.0.1:{port}", TE_TOKEN="x")
            line, start = "te backends http-response get bk", time.monotonic()
            assert complete(other_user, "bash", line) == [line]
            assert time.monotonic() - start < 10


def test_tab_opens_no_browser_after_the_end_of_a_sign_in(user: User, api: Served, tmp_path: Path) -> None:
    need("bash")
    user.login(api)
    config, marker = user.home / ".config/te/config.toml", tmp_path / "opened"
    config.write_text(config.read_text() + 'federated = "fcred_1"\n')
    secret = {"token": "ended", "id": "ak_1", "lifetime": "60", "expires_at": "2020-01-01T00:00:00Z"}
    (user.home / ".local/state/te/credentials/default").write_text(json.dumps(secret))
    browser = tmp_path / "browser"
    browser.write_text(f"#!{sys.executable}\nopen({str(marker)!r}, 'w')\n")
    browser.chmod(0o700)
    line = "te backends http-response get bk"
    assert complete(user.with_settings(BROWSER=str(browser)), "bash", line) == [line]
    assert not marker.exists()
