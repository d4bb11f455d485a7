"""The wheel beside a whole edge."""

import contextlib
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.conftest import User, api, imported, issuer, other_issuer, served, te, user
from tests.conftest import Served, free_port
from tests.live.edge.processes import Platform, start_edge
from tests.live.edge.running import Key, until

__all__ = ["api", "imported", "issuer", "other_issuer", "served", "te", "user"]


class Te:
    """A `te` that runs."""

    def __init__(self, user: User, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [str(user.te), *arguments],
            env=user.environment,
            cwd=user.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.stdout_lines: list[str] = []
        self.stderr_lines: list[str] = []
        for lines, lines_so_far in ((self.process.stdout, self.stdout_lines), (self.process.stderr, self.stderr_lines)):
            threading.Thread(target=_collect, args=(lines, lines_so_far), daemon=True).start()

    def address(self) -> str:
        """Return the address of the tunnel, once it is open."""
        until(lambda: bool(self.stdout_lines) or self.process.poll() is not None, within=20)
        assert self.stdout_lines, self.stderr_lines
        return self.stdout_lines[0]

    def wait_for(self, text: str, *, within: float = 20) -> None:
        until(lambda: any(text in line for line in self.stderr_lines), within=within)

    def end(self, number: int = signal.SIGINT) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(10)


def _collect(lines: Any, collected: list[str]) -> None:
    for line in lines:
        collected.append(line.rstrip("\n"))


@contextlib.contextmanager
def running_te(user: User, *arguments: str) -> Iterator[Te]:
    te = Te(user, *arguments)
    try:
        yield te
    finally:
        te.end(signal.SIGKILL)


@pytest.fixture(scope="session")
def platform(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """Run an edge beside the served API."""
    ports = {name: str(free_port()) for name in ("SSH_PORT", "EDGE_PORT", "HTTP_PORT")}
    folder = tmp_path_factory.mktemp("edge")
    edge = start_edge(served, {**ports, "LOCAL_DIR": str(folder), "LEASE": "60"})
    try:
        yield Platform(served.__class__(**{**vars(served), "local": folder}), ports, edge, Key(folder, ""))
    finally:
        edge.send_signal(signal.SIGINT)
        edge.wait(20)
