"""The test that CONTRIBUTING.md shows, run as it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT


def test_the_example_passes_by_itself(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "CONTRIBUTING.md").read_text(), re.M | re.S)
    file = tmp_path / "test_example.py"
    file.write_text(example)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(file)]
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert "1 passed" in process.stdout, process.stdout + process.stderr
