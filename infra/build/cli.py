"""`make cli`: build the wheel of the command line twice, and compare the bytes."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from chalicelib.documents import openapi
from infra import ROOT, CommandError
from infra.build import kinds

FOLDER = ROOT / "build" / "cli"
MAX_SIZE = 200 * 1024  # bytes
_SOURCE = ROOT / "cli"
KINDS = _SOURCE / "tunnel_edge" / "api" / "kinds.json"
_PYTHON = ROOT / ".venv-cli" / "bin" / "python"


def build_wheel(folder: Path) -> Path:
    """Write the wheel into a folder, and return its path. Raises CommandError."""
    write_kinds()
    write_help()
    with tempfile.TemporaryDirectory() as parent:
        source = Path(parent) / "cli"
        shutil.copytree(_SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
        command = [str(_PYTHON), "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
        done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandError(f"The wheel could not be built:\n{done.stdout}{done.stderr}")
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, environment: Path) -> Path:
    """Install a wheel in a new environment, with its dependencies from .venv-cli. Return the program."""
    uv = str(ROOT / ".venv" / "bin" / "uv")
    subprocess.run([uv, "venv", "--quiet", "--python", str(_PYTHON), str(environment)], check=True)
    installed = [uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--compile-bytecode"]
    subprocess.run([*installed, "--python", str(environment / "bin" / "python"), str(wheel)], check=True)
    (packages,) = environment.glob("lib/python3*/site-packages")
    (pinned,) = (ROOT / ".venv-cli").glob("lib/python3*/site-packages")
    (packages / "pinned.pth").write_text(f"{pinned.resolve()}\n")
    return environment / "bin" / "te"


def write_kinds() -> None:
    """Write the reduced OpenAPI document."""
    document = json.loads(openapi.FILE.read_text(encoding="utf-8"))
    text = json.dumps(kinds.reduce(document), ensure_ascii=False, separators=(",", ":"))
    _write(KINDS, text)


def write_help() -> None:
    """Write the list of all commands, which the program shows without importing click."""
    program = "from tunnel_edge import app; print(app.help_page(), end='')"
    environment = {**os.environ, "PYTHONPATH": str(_SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([str(_PYTHON), "-c", program], env=environment, capture_output=True, text=True, check=True)
    _write(KINDS.parent.parent / "help.txt", done.stdout)


def _write(file: Path, text: str) -> None:
    """Write a file in one step, and only if it differs: several builds may run at once."""
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        new = file.with_name(f"{file.name}.{os.getpid()}")
        new.write_text(text, encoding="utf-8")
        new.replace(file)


def main() -> None:
    """Write `build/cli/*.whl`. A failure exits with one sentence and status 1."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    try:
        wheel = build_wheel(FOLDER)
        with tempfile.TemporaryDirectory() as again:
            if build_wheel(Path(again)).read_bytes() != wheel.read_bytes():
                raise CommandError("Two builds of the wheel differ.")
    except CommandError as error:
        sys.exit(str(error))
    size = wheel.stat().st_size
    if size > MAX_SIZE:
        sys.exit(f"{wheel.name} has {size:,} bytes, more than {MAX_SIZE:,}.")
    print(f"{wheel.relative_to(ROOT)}: {size:,} bytes")


if __name__ == "__main__":
    main()
