"""The wheel of the command line, installed in an empty environment, and users of it with an empty HOME."""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from infra.build import cli
from tests import needs
from tests.cli import issuer as issuers
from tests.cli.issuer import OidcIssuer
from tests.conftest import Served, free_port, remember_stored, serve
from tests.forked import Program
from tests.transports import RECORD


@dataclass(frozen=True)
class User:
    """A user of the command line, with a home of their own."""

    te: Path  # the program
    imported: Program  # the same, imported already
    home: Path
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of their processes: nothing of this one's."""
        path = f"{self.te.parent}{os.pathsep}/usr/bin{os.pathsep}/bin"
        return {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", **self.settings}

    def with_settings(self, **settings: str) -> "User":
        return replace(self, settings={**self.settings, **settings})

    def run(self, *arguments: str, stdin: str = "", timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run `te` with these arguments and this standard input, in a fork unless Python itself reads a setting."""
        if any(name.startswith("PYTHON") for name in self.settings):
            return self.run_anew(*arguments, stdin=stdin, timeout=timeout)
        return self.imported.run(
            *arguments, environment=self.environment, folder=self.home, stdin=stdin, timeout=timeout
        )

    def run_anew(self, *arguments: str, stdin: str = "", timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run `te` as `run` does, in a process of its own."""
        return subprocess.run(
            [str(self.te), *arguments],
            input=stdin,
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def run_script(self, script: str) -> str:
        """Run lines in one bash, which ends at the first error. Return what it printed."""
        command = ["bash", "-euo", "pipefail", "-c", script]
        result = subprocess.run(
            command, env=self.environment, cwd=self.home, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=110,
        )  # fmt: skip
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def seconds(self, *command: str) -> float:
        """Return the shortest time of a program in some runs."""
        times = []
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run(command, env=self.environment, stdout=subprocess.DEVNULL, check=True)
            times.append(time.perf_counter() - start)
        return min(times)

    def login(self, api: Served) -> "User":
        """Sign in with the key of a served API."""
        result = self.run("login", api.base_url, "--key", stdin=f"{api.token}\n")
        assert result.returncode == 0, result.stderr
        return self


@pytest.fixture(scope="session")
def te(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program of the wheel, installed in an environment that has only what it needs."""
    needs.need("the environment of the command line", "the environment of make")
    folder = tmp_path_factory.mktemp("wheel")
    return cli.install(cli.build_wheel(folder), folder / "environment")


# What nearly all commands import.
OFTEN_IMPORTED = ("tunnel_edge.app", "tunnel_edge.api.client", "tunnel_edge.commands.kinds", "urllib3", "platformdirs")


@pytest.fixture(scope="session")
def imported(te: Path) -> Iterator[Program]:
    program = Program("tunnel_edge", *OFTEN_IMPORTED, script=te)
    yield program
    program.close()


@pytest.fixture
def user(te: Path, imported: Program, tmp_path: Path) -> User:
    """Return a user with an empty home."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return User(te, imported, home)


@pytest.fixture(scope="session")
def issuer() -> Iterator[OidcIssuer]:
    with issuers.serving() as server:
        yield server


@pytest.fixture(scope="session")
def other_issuer() -> str:
    """Return the address of another issuer that the operator allows. The test that needs one starts it."""
    return f"http://127.0.0.1:{free_port()}"


@pytest.fixture(scope="session")
def served(issuer: OidcIssuer, other_issuer: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve one API, whose operator allows the issuers, for all tests of the command line."""
    issuers = f"{issuer.url}=sub {other_issuer}=sub"
    process, api = serve(tmp_path_factory.mktemp("served") / "local", OIDC_ISSUERS=issuers)
    yield api
    remember_stored(api)
    process.terminate()
    process.wait(timeout=30)


@pytest.fixture
def api(served: Served) -> Served:
    """Return a served API, for the admin of a new account."""
    newcomer = served.newcomer()
    RECORD.secrets.add(newcomer.token)
    return newcomer


@pytest.fixture
def admin_user(user: User, api: Served) -> User:
    """Return a user who has signed in as the admin of a new account."""
    return user.login(api)
