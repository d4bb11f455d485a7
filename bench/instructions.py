"""Instructions of a fresh process, counted by valgrind. They do not depend on the load of the machine."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from infra import CommandError


def count(command: Sequence[str]) -> int:
    """Return the number of instructions that a command executes. Raises CommandError without valgrind."""
    if not shutil.which("valgrind"):
        raise CommandError("valgrind counts the instructions of cold starts: install it, for example with apt-get.")
    with TemporaryDirectory() as folder:
        out = f"--cachegrind-out-file={Path(folder, 'out')}"
        tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", out]
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        done = subprocess.run([*tool, *command], env=environment, capture_output=True, text=True, check=True)
    counted = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    if not counted:
        raise RuntimeError(f"valgrind printed no count of instructions: {done.stderr[-500:]}")
    return int(counted[1].replace(",", ""))
