"""`make run` and its API, started and ended by tests."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.conftest import Served, serve

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0Sz0pVBEkVqhwXdvjUVMJYOSSOOKaLQ9cUZC0TvJSh"


@contextmanager
def run(local: Path) -> Iterator[tuple[Served, subprocess.Popen[bytes]]]:
    """Yield the API on what the folder keeps; it waits for the end of a cloud whose API was killed."""
    process, api = serve(local)
    try:
        yield api, process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        process.wait(timeout=30)
