"""Make virtual environments in parallel with uv, or with pip if uv fails.

The command runs before anything is installed, and fetches uv if the machine has none. If the registry does not answer,
the command fails with one sentence within ten seconds: only few failures are retried, and timeouts are not. While bytes
arrive, a slow registry is not an error.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from infra import ROOT, CommandError

SILENCE = 4  # seconds without a received byte after which the registry counts as down
_TIMEOUTS = re.compile("timed out|respond within", re.IGNORECASE)  # what uv or pip print after a timeout
_NO_ANSWER = "it does not answer"
_BROKEN = re.compile(
    "connection (?:refused|reset|aborted)|unreachable|no route to host|name or service not known|dns error"
    "|name resolution|failed to lookup|server error",
    re.IGNORECASE,
)
_UV = ROOT / ".venv-uv"
_ENVIRONMENT = {
    "RES_OPTIONS": "timeout:2 attempts:2",  # a short timeout of glibc's resolver, for a name server that is down
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    # few downloads at once: with the default of 50, some would get no bytes for SILENCE seconds on a slow line
    "UV_CONCURRENT_DOWNLOADS": "8",
    "UV_HTTP_CONNECT_TIMEOUT": f"{SILENCE}",
    "UV_HTTP_RETRIES": "0",
    "UV_HTTP_TIMEOUT": f"{SILENCE}",
    # search all indexes, like pip; the pinned hashes reject packages of the same name in another index
    "UV_INDEX_STRATEGY": "unsafe-best-match",
    "UV_PYTHON_DOWNLOADS": "never",
}


@dataclass(frozen=True)
class Environment:
    """A virtual environment: the file that marks it as complete, and its requirements."""

    marker: str
    requirements: str
    purpose: str
    also: str = ""  # the marker file of a smaller environment in the same folder, if this environment includes it

    @property
    def folder(self) -> Path:
        return (ROOT / self.marker).parent

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def is_up_to_date(self) -> bool:
        marker = ROOT / self.marker
        return marker.exists() and marker.stat().st_mtime >= (ROOT / self.requirements).stat().st_mtime


ENVIRONMENTS = {
    each.marker: each
    for each in (
        Environment(".venv/run", "requirements/run.txt", "what the API needs"),
        Environment(".venv/dev", "requirements-dev.txt", "what the tests and checks need", also=".venv/run"),
        Environment(".venv/bench", "requirements/bench.txt", "what the benchmarks need"),
        Environment(".venv/peer", "requirements/peer.txt", "OpenBao, which the benchmarks sign beside"),
        Environment(".venv-cloud/ready", "requirements/cloud.txt", "what the embedded cloud needs"),
        Environment(".venv-edge/ready", "requirements/edge.txt", "what the live edge needs"),
        Environment(".venv-cli/ready", "requirements/cli.txt", "what the command line needs"),
        Environment(".venv-terraform/ready", "requirements/terraform.txt", "what the Terraform provider needs"),
        Environment(".venv-clients/ready", "requirements/clients.txt", "the generator of the Go client"),
    )
}


class _InstallError(Exception):
    """Packages could not be installed. The error contains the installer's output."""

    def __init__(self, output: str) -> None:
        super().__init__(output)
        self.output, self.unreachable = output, _network_fault(output)


def main(names: Sequence[str]) -> None:
    """Make the named environments that are out of date.

    A failure exits with one sentence and status 1.
    """
    outdated = [ENVIRONMENTS[name] for name in names if not ENVIRONMENTS[name].is_up_to_date()]
    if not outdated:
        return
    base = next(python for python in (str(ROOT / ".venv/bin/python"), sys.executable) if _runs(python, "-c", ""))
    try:
        uv = _find_uv()
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda environment: _make(environment, uv, base), outdated))
    except CommandError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _find_uv() -> str:
    """Return the path of a working uv, or "". Install uv if it is missing.

    Raises CommandError if the registry is unreachable.
    """
    pip = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, check=False, text=True)
    if "no-index=" in pip.stdout:  # pip installs from a folder, and uv does not read pip's configuration
        return ""
    if match := re.search(r"\.index-url='(.+)'", pip.stdout):
        os.environ.setdefault("UV_DEFAULT_INDEX", match[1])
    fetched = str(_UV / "bin" / "uv")
    for candidate in (shutil.which("uv"), fetched):
        if candidate and _runs(candidate, "--version"):
            return candidate
    print("Fetching uv, which makes the environments …", flush=True)
    try:
        _fetch_uv(has_pip=pip.returncode == 0)
    except _InstallError as failed:
        if failed.unreachable:
            raise _build_command_error("uv", failed) from failed
    return fetched if _runs(fetched, "--version") else ""


def _fetch_uv(*, has_pip: bool) -> None:
    """Install uv into a separate folder of this project. Raises _InstallError."""
    shutil.rmtree(_UV, ignore_errors=True)
    requirements = ["--require-hashes", "-r", str(ROOT / "requirements/uv.txt")]
    if has_pip:
        _install(_pip(sys.executable, ["--target", str(_UV), *requirements]))
    else:
        _install([sys.executable, "-m", "venv", str(_UV)])
        _install(_pip(str(_UV / "bin" / "python"), requirements))


def _make(environment: Environment, uv: str, base: str) -> None:
    """Make an environment. Raises CommandError."""
    tool = "uv" if uv else "pip"
    print(f"Fetching {environment.purpose}, into {environment.folder.name} with {tool} …", flush=True)
    try:
        if not (uv and _install_with_uv(environment, uv, base)):
            _install_with_pip(environment, base)
    except _InstallError as failed:
        raise _build_command_error(environment.purpose, failed) from failed
    for marker in filter(None, (environment.also, environment.marker)):
        (ROOT / marker).touch()


def _install_with_uv(environment: Environment, uv: str, base: str) -> bool:
    """Install with uv. Return False if pip should try instead.

    Raises _InstallError if the registry is unreachable.
    """
    python, requirements = str(environment.python), str(ROOT / environment.requirements)
    try:
        if not _runs(python, "-c", ""):  # the environment is incomplete, or its Python was removed since
            shutil.rmtree(environment.folder, ignore_errors=True)
            _install([uv, "venv", "--quiet", "--python", base, str(environment.folder)])
        _install([uv, "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", requirements], tries=3)
    except _InstallError as failed:
        if failed.unreachable:
            raise
        return False
    return True


def _install_with_pip(environment: Environment, base: str) -> None:
    python = str(environment.python)
    if not _runs(python, "-m", "pip", "--version"):
        _install([base, "-m", "venv", "--clear", str(environment.folder)])
    _install(_pip(python, ["--require-hashes", "-r", str(ROOT / environment.requirements)]))


def _pip(python: str, arguments: Sequence[str]) -> list[str]:
    return [python, "-m", "pip", "install", "-vv", "--timeout", str(SILENCE), "--retries", "0", *arguments]


def _install(command: Sequence[str], tries: int = 1) -> None:
    """Run a command of uv or pip, at most `tries` times. Retry it only after network faults.

    After a timeout in the first 30 seconds, the registry counts as down, and the command is not retried. Raises
    _InstallError.
    """
    environment = {**os.environ, **_ENVIRONMENT}
    for tries_left in reversed(range(tries)):
        start = time.monotonic()
        completed = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True, env=environment
        )
        if completed.returncode == 0:
            return
        failed = _InstallError(completed.stdout + completed.stderr)
        is_silent = failed.unreachable == _NO_ANSWER and time.monotonic() - start < 30
        if not tries_left or not failed.unreachable or is_silent:
            raise failed
        time.sleep(0.5)


def _runs(*command: str) -> bool:
    try:
        return not subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode
    except OSError:
        return False


def _network_fault(output: str) -> str:
    """Return the network fault in the output of uv or pip, or ""."""
    broken = _BROKEN.search(output)
    return _NO_ANSWER if _TIMEOUTS.search(output) else broken[0].lower() if broken else ""


def _build_command_error(purpose: str, failed: _InstallError) -> CommandError:
    """Return the error to print. The error quotes uv or pip, unless the registry was unreachable."""
    if failed.unreachable:
        return CommandError(
            f"The registry of Python's packages could not be reached for {purpose} ({failed.unreachable}): "
            "check that this machine is connected, then run make again."
        )
    errors = [line for line in failed.output.splitlines() if re.match(r"error|\s+\w", line, re.IGNORECASE)]
    return CommandError("\n".join([f"The installation of {purpose} failed.", *errors[-10:]]))


if __name__ == "__main__":
    main(sys.argv[1:])
