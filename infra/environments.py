"""Make virtual environments, several at once, with uv; where it is not there it is fetched, and pip is the way back.

This runs before anything is installed. What does not answer is told in a sentence within ten seconds: tries that fail
at once are few, and a silence is waited for once. A slow registry may take its time, as long as bytes arrive.
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

SILENCE = 4  # seconds without a byte, after which nobody is there
_SILENT = re.compile("timed out|respond within", re.IGNORECASE)  # in the words of uv or of pip
_IS_SILENT = "it is silent"
_BROKEN = re.compile(
    "connection (?:refused|reset|aborted)|unreachable|no route to host|name or service not known|dns error"
    "|name resolution|failed to lookup|server error",
    re.IGNORECASE,
)
_UV = ROOT / ".venv-uv"
_ENVIRONMENT = {
    "RES_OPTIONS": "timeout:2 attempts:2",  # of glibc's resolver: a name server may be the one that is silent
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "UV_CONCURRENT_DOWNLOADS": "8",  # of 50 on a slow line some would get nothing for longer than a silence
    "UV_HTTP_CONNECT_TIMEOUT": f"{SILENCE}",
    "UV_HTTP_RETRIES": "0",
    "UV_HTTP_TIMEOUT": f"{SILENCE}",
    "UV_INDEX_STRATEGY": "unsafe-best-match",  # as pip does; the hashes say what may come from where
    "UV_PYTHON_DOWNLOADS": "never",
}


@dataclass(frozen=True)
class Environment:
    """Packages in a folder, and what is written down, beside `make`, when they are there."""

    made: str
    requirements: str
    purpose: str
    also: str = ""  # another of these, which it includes

    @property
    def folder(self) -> Path:
        return (ROOT / self.made).parent

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def is_up_to_date(self) -> bool:
        made = ROOT / self.made
        return made.exists() and made.stat().st_mtime >= (ROOT / self.requirements).stat().st_mtime


ENVIRONMENTS = {
    each.made: each
    for each in (
        Environment(".venv/run", "requirements/run.txt", "what the API needs"),
        Environment(".venv/dev", "requirements-dev.txt", "what the tests and checks need", also=".venv/run"),
        Environment(".venv/bench", "requirements/bench.txt", "what the benchmarks need"),
        Environment(".venv/peer", "requirements/peer.txt", "OpenBao, which the benchmarks sign beside"),
        Environment(".venv-cloud/ready", "requirements/cloud.txt", "what the embedded cloud needs"),
        Environment(".venv-edge/ready", "requirements/edge.txt", "what the live edge needs"),
        Environment(".venv-clients/ready", "requirements/clients.txt", "the generator of the Go client"),
    )
}


class _FailedError(Exception):
    """A tool could not install; these are its words."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words, self.unreachable = words, _unreachable(words)


def main(names: Sequence[str]) -> None:
    """Make those of the named environments that are not up to date, or exit with status 1 and one sentence."""
    wanted = [ENVIRONMENTS[name] for name in names if not ENVIRONMENTS[name].is_up_to_date()]
    if not wanted:
        return
    base = next(python for python in (str(ROOT / ".venv/bin/python"), sys.executable) if _runs(python, "-c", ""))
    try:
        uv = _uv()
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda environment: _make(environment, uv, base), wanted))
    except CommandError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _uv() -> str:
    """Return a uv that runs, fetched if need be; "" if there is none. Raises CommandError for a dead registry."""
    pip = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, check=False, text=True)
    if "no-index=" in pip.stdout:  # packages lie in a folder that only pip was told of
        return ""
    if found := re.search(r"\.index-url='(.+)'", pip.stdout):
        os.environ.setdefault("UV_DEFAULT_INDEX", found[1])
    fetched = str(_UV / "bin" / "uv")
    for candidate in (shutil.which("uv"), fetched):
        if candidate and _runs(candidate, "--version"):
            return candidate
    print("Fetching uv, which makes the environments …", flush=True)
    try:
        _fetch_uv(has_pip=pip.returncode == 0)
    except _FailedError as failed:
        if failed.unreachable:
            raise _told("uv", failed) from failed
    return fetched if _runs(fetched, "--version") else ""


def _fetch_uv(*, has_pip: bool) -> None:
    """Install uv in a folder of its own. Raises _FailedError."""
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
        if not (uv and _installed_with_uv(environment, uv, base)):
            _install_with_pip(environment, base)
    except _FailedError as failed:
        raise _told(environment.purpose, failed) from failed
    for made in filter(None, (environment.also, environment.made)):
        (ROOT / made).touch()


def _installed_with_uv(environment: Environment, uv: str, base: str) -> bool:
    """Install with uv; return False where it failed and pip should try. Raises _FailedError for a dead registry."""
    python, requirements = str(environment.python), str(ROOT / environment.requirements)
    try:
        if not _runs(python, "-c", ""):  # its making was broken off, or its Python is gone
            shutil.rmtree(environment.folder, ignore_errors=True)
            _install([uv, "venv", "--quiet", "--python", base, str(environment.folder)])
        _install([uv, "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", requirements], tries=3)
    except _FailedError as failed:
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
    """Run a command; again where a connection broke, or fell silent after long. Raises _FailedError."""
    environment = {**os.environ, **_ENVIRONMENT}
    for left in reversed(range(tries)):
        began = time.monotonic()
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True, env=environment
        )
        if done.returncode == 0:
            return
        failed = _FailedError(done.stdout + done.stderr)
        waited_in_vain = failed.unreachable == _IS_SILENT and time.monotonic() - began < 30
        if not left or not failed.unreachable or waited_in_vain:
            raise failed
        time.sleep(0.5)


def _runs(*command: str) -> bool:
    try:
        return not subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode
    except OSError:
        return False


def _unreachable(words: str) -> str:
    """Return how the registry could not be reached, as uv or pip says it; "" if the network is not to blame."""
    broken = _BROKEN.search(words)
    return _IS_SILENT if _SILENT.search(words) else broken[0].lower() if broken else ""


def _told(what: str, failed: _FailedError) -> CommandError:
    """Return the message for the person at the terminal: a tool's own words where the network is not to blame."""
    if failed.unreachable:
        return CommandError(
            f"The registry of Python's packages could not be reached for {what} ({failed.unreachable}): "
            "see that this machine is connected, then run make again."
        )
    errors = [line for line in failed.words.splitlines() if re.match(r"error|\s+\w", line, re.IGNORECASE)]
    return CommandError("\n".join([f"This could not be installed: {what}.", *errors[-10:]]))


if __name__ == "__main__":
    main(sys.argv[1:])
