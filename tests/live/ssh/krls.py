"""What `ssh-keygen` reads in a list of revoked keys, and the list that it makes itself."""

import re
import subprocess
from pathlib import Path


def is_revoked(folder: Path, krl: bytes, line: str) -> bool:
    """Tell whether a list revokes a key or certificate. Raises AssertionError if ssh-keygen cannot read it."""
    (folder / "krl").write_bytes(krl)
    (folder / "asked.pub").write_text(f"{line}\n")
    command = ["ssh-keygen", "-Q", "-f", str(folder / "krl"), str(folder / "asked.pub")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    verdict = result.stdout.rstrip().rpartition(": ")[2]
    assert (result.returncode, verdict) in ((0, "ok"), (1, "REVOKED")), result.stdout + result.stderr
    return verdict == "REVOKED"


def serials(folder: Path, krl: bytes) -> set[int]:
    """Return the serials in a list. CalledProcessError for a list that ssh-keygen cannot read."""
    (folder / "krl").write_bytes(krl)
    command = ["ssh-keygen", "-Q", "-l", "-f", str(folder / "krl")]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    ranges = re.findall(r"^serial: (\d+)(?:-(\d+))?$", output, flags=re.MULTILINE)
    return {serial for first, last in ranges for serial in range(int(first), int(last or first) + 1)}
