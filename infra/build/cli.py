"""`make cli`: build the wheel of the command line twice, and compare the bytes."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from infra import ROOT, CommandError

FOLDER = ROOT / "build" / "cli"
MAX_SIZE = 200 * 1024  # bytes
_SOURCE = ROOT / "cli"
_PYTHON = ROOT / ".venv-cli" / "bin" / "python"


def build_wheel(folder: Path) -> Path:
    """Write the wheel into a folder, and return its path. Raises CommandError."""
    with tempfile.TemporaryDirectory() as parent:
        source = Path(parent) / "cli"
        shutil.copytree(_SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
        command = [str(_PYTHON), "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
        done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandError(f"The wheel could not be built:\n{done.stdout}{done.stderr}")
    (wheel,) = folder.glob("*.whl")
    return wheel


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
