"""Ctrl-C at a real terminal, at each prompt: the exit code is 130, and no secret is left behind."""

import json
import os
import pty
import select
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.cli import issuer as issuers
from tests.cli.conftest import User
from tests.cli.issuer import OidcIssuer
from tests.conftest import Served

SECRET = "typed-s3cr3t-4711"
_CTRL_C = "\x03"

# An editor that saves beside its file, too, as some do for backups. Ctrl-C ends it, or the input of a text.
EDITOR = """
import pathlib, sys, time
file = pathlib.Path(sys.argv[1])
file.with_name(file.name + "~").write_text(file.read_text())
try:
    print("the editor is open", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    if not {handles}:
        raise
    file.write_text(file.read_text() + "edited")
"""


class Terminal:
    """A terminal in which `te` runs."""

    def __init__(self, user: User, *arguments: str) -> None:
        self._terminal, slave = pty.openpty()
        self._process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", str(user.te), *arguments],
            stdin=slave, stdout=slave, stderr=slave, env=user.environment, cwd=user.home,
        )  # fmt: skip
        self._slave = slave
        self.shown = ""

    def read_until(self, text: str) -> None:
        while text not in self.shown:
            assert select.select([self._terminal], [], [], 20)[0], self.shown
            part = os.read(self._terminal, 65536)
            assert part, self.shown
            self.shown += part.decode(errors="replace")

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def end(self, text: str) -> int:
        """Type a text until the process has ended: Python's input() can miss a signal at its beginning.

        Return the exit code.
        """
        for _ in range(40):
            self.type(text)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=0.5)
                break
        code = self._process.wait(timeout=1)
        os.set_blocking(self._terminal, False)
        with suppress(BlockingIOError):
            while part := os.read(self._terminal, 65536):
                self.shown += part.decode(errors="replace")
        return code

    @property
    def shows_what_is_typed(self) -> bool:
        return bool(termios.tcgetattr(self._slave)[3] & termios.ECHO)

    def close(self) -> None:
        self._process.kill()
        self._process.wait(timeout=10)
        os.close(self._slave)
        os.close(self._terminal)


@pytest.fixture
def caller(user: User, api: Served) -> User:
    """Return a user whose key is in the environment only. Programs put their temporary files below the home."""
    temporary = user.home / "temporary"
    temporary.mkdir()
    return user.with_settings(TE_URL=api.base_url, TE_TOKEN=api.token, TMPDIR=str(temporary), TERM="xterm")


def assert_nothing_is_left(user: User, *secrets: str) -> None:
    contents = {file: file.read_bytes() for file in user.home.rglob("*") if file.is_file()}
    assert [file for file, content in contents.items() for secret in secrets if secret.encode() in content] == []
    assert [*(user.home / "temporary").iterdir()] == []


def interrupt(user: User, prompt: str, text: str, *arguments: str) -> str:
    """Type a text and Ctrl-C at a prompt. Return what the terminal showed."""
    with closing(Terminal(user, *arguments)) as terminal:
        terminal.read_until(prompt)
        is_hidden = not terminal.shows_what_is_typed
        terminal.type(text)
        assert terminal.end(_CTRL_C) == 130, terminal.shown
        assert terminal.shows_what_is_typed
        assert not (is_hidden and text in terminal.shown)
        return terminal.shown


def test_at_the_prompt_for_a_key(caller: User, api: Served) -> None:
    output = interrupt(caller, "API key", api.token, "login", api.base_url, "--key")
    assert api.token not in output
    assert_nothing_is_left(caller, api.token)
    assert [file for file in caller.home.rglob("*") if file.is_file()] == []


def test_at_the_prompt_for_an_address(caller: User, served: Served, issuer: OidcIssuer) -> None:
    admin = served.client()
    owner = admin.create("/bot_users", {"name": f"ada-{time.monotonic_ns()}"})["id"]
    fields = {"issuer": issuer.url, "audiences": [issuers.CLIENT], "claims": {"sub": "ada"}, "owner_id": owner}
    more = {"scopes": ["backends:read"], "sign_in": {"client_id": issuers.CLIENT}}
    credential = admin.create("/federated_credentials", {**fields, **more})["id"]
    interrupt(caller, "Address", SECRET, "login", served.base_url, credential, "--paste")
    assert_nothing_is_left(caller, SECRET)
    assert not (caller.home / ".local/state/te/credentials").exists()


def test_at_the_prompt_for_a_passphrase(caller: User, api: Served) -> None:
    key = caller.home / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", SECRET, "-f", key], check=True)
    output = interrupt(caller, "Passphrase of", SECRET, "http", "1", "--identity", str(key))
    assert SECRET not in output
    assert_nothing_is_left(caller, SECRET, api.token)


@pytest.mark.parametrize("form", [("-t", "ed25519"), ("-t", "ecdsa", "-m", "PEM")])
def test_a_passphrase_opens_a_key(caller: User, form: tuple[str, ...]) -> None:
    key = caller.home / "key"
    subprocess.run(["ssh-keygen", "-q", *form, "-N", SECRET, "-f", key], check=True)
    for text, code, message in ((f"{SECRET}\n", 5, "no running gateway"), ("x\n", 1, f"of {key} is wrong")):
        with closing(Terminal(caller, "http", "1", "--identity", str(key))) as terminal:
            terminal.read_until("Passphrase of")
            assert (terminal.end(text), message in terminal.shown) == (code, True), terminal.shown
    beside = caller.run("http", "1", "--identity", str(key))
    assert (beside.returncode, "has a passphrase: add it to the agent" in beside.stderr) == (4, True)


def test_at_the_question_whether_to_write_the_configuration(caller: User, api: Served) -> None:
    caller.login(api)
    interrupt(caller, "~/.ssh/config?", "", "ssh", "config")
    assert not (caller.home / ".ssh").exists()


@contextmanager
def record_commands(user: User) -> Iterator[list[dict[str, str]]]:
    """Answer at the socket of a `te http` that has recorded a request with a secret. Yield what was asked."""
    commands: list[dict[str, str]] = []
    folder = user.home / ".local/state/te/run"
    folder.mkdir(parents=True, mode=0o700)
    descriptor = os.open(folder, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{descriptor}/1.sock")
        server.listen()

        def answer() -> None:
            results = {"text": f"GET / HTTP/1.1\ncookie: {SECRET}\n\n", "replay": {"id": 2, "status": 200}}
            while True:
                connection, _ = server.accept()
                with connection, connection.makefile("rwb") as lines:
                    if not (line := lines.readline()):
                        return
                    commands.append(json.loads(line))
                    lines.write(json.dumps({"result": results[commands[-1]["command"]]}).encode() + b"\n")

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield commands
        finally:
            with socket.socket(socket.AF_UNIX) as last:
                last.connect(f"/proc/self/fd/{descriptor}/1.sock")
            thread.join()
            os.close(descriptor)


@pytest.mark.parametrize("handles", [False, True])
def test_in_an_editor(caller: User, tmp_path: Path, handles: bool) -> None:
    program = tmp_path / "editor.py"
    program.write_text(EDITOR.format(handles=handles))
    user = caller.with_settings(EDITOR=f"'{sys.executable}' '{program}'")
    with (
        record_commands(user) as commands,
        closing(Terminal(user, "requests", "replay", "1", "--edit", "-o", "id")) as terminal,
    ):
        terminal.read_until("the editor is open")
        (folder,) = (caller.home / "temporary").iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert terminal.end(_CTRL_C) == (0 if handles else 130), terminal.shown
    edited = [command["text"] for command in commands if command["command"] == "replay"]
    assert edited == ([f"GET / HTTP/1.1\ncookie: {SECRET}\n\nedited"] if handles else [])
    assert_nothing_is_left(caller, SECRET)
