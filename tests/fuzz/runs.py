"""Runs of Schemathesis against a served API: every check and every operation, as schemathesis.toml says."""

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT, Served
from tests.needs import need

_SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")


def run(api: Served, *options: str, capture: bool) -> subprocess.CompletedProcess[str]:
    """Run Schemathesis with these options; the exit status is 0 where it found nothing."""
    settings = {"BASE_URL": api.base_url, "API_KEY": api.token, "SCHEMATHESIS_HOOKS": "tests.fuzz.hooks"}
    config = Path(__file__).with_name("schemathesis.toml")
    need("openssl")
    return subprocess.run(
        [_SCHEMATHESIS, f"--config-file={config}", "run", f"{api.base_url}/openapi.json", *options],
        cwd=ROOT,
        env={**os.environ, **settings},
        capture_output=capture,
        text=True,
    )
