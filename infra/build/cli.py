"""`make cli`: build the wheel of the command line twice, and compare the bytes."""

import json
import os
import subprocess
import sys
from pathlib import Path

from chalicelib.documents import openapi
from infra import ROOT, CommandError
from infra.build import kinds, wheels

FOLDER = ROOT / "build" / "cli"
MAX_SIZE = 200 * 1024  # size limit of the wheel in bytes
_SOURCE = ROOT / "cli"
KINDS = _SOURCE / "tunnel_edge" / "api" / "kinds.json"
PYTHON = ROOT / ".venv-cli" / "bin" / "python"


def build_wheel(folder: Path) -> Path:
    """Write the wheel into a folder, and return its path. Raises CommandError."""
    write_kinds()
    write_help()
    return wheels.build(_SOURCE, PYTHON, folder)


def install(wheel: Path, environment: Path) -> Path:
    """Install a wheel in a new environment, with its dependencies from .venv-cli. Return the path of `te`."""
    return wheels.install(wheel, PYTHON, environment) / "te"


def write_kinds() -> None:
    """Write `kinds.json`, the reduced OpenAPI document from which the command line makes its commands."""
    document = json.loads(openapi.FILE.read_text(encoding="utf-8"))
    text = json.dumps(kinds.reduce(document), ensure_ascii=False, separators=(",", ":"))
    wheels.write(KINDS, text)


def write_help() -> None:
    """Write the list of all commands, which the program shows without importing click."""
    program = "from tunnel_edge import app; print(app.help_page(), end='')"
    environment = {**os.environ, "PYTHONPATH": str(_SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([str(PYTHON), "-c", program], env=environment, capture_output=True, text=True, check=True)
    wheels.write(KINDS.parent.parent / "help.txt", done.stdout)


def main() -> None:
    """Write `build/cli/*.whl`. A failure exits with one sentence and status 1."""
    try:
        wheels.write_bill(wheels.build_twice(build_wheel, FOLDER, MAX_SIZE), PYTHON)
    except CommandError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
