"""Commands in an environment that no other make has changed."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import ROOT, free_port

STOPPED = "Stopped. All data is stored: 'make run' continues with it, 'make reset' deletes it."


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """This one, without what a make around these tests would tell the make in them."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))},
        **settings,
    }


def settings(local: Path) -> dict[str, str]:
    return {"LOCAL_DIR": str(local), "PORT": str(free_port()), "CLOUD_PORT": str(free_port())}


def run(chosen: dict[str, str], *command: str) -> tuple[int, str, str]:
    """Return the exit status and what was said on both channels."""
    process = subprocess.run(
        command or (sys.executable, "-m", "infra.local.run"),
        cwd=ROOT,
        env=environment(chosen),
        capture_output=True,
        text=True,
        timeout=60,
    )
    return process.returncode, process.stdout, process.stderr
