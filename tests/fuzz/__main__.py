"""`make fuzz`: all phases at random for so many seconds, against an API of its own. Repeat a run with its seed."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.conftest import serve
from tests.fuzz import runs

if __name__ == "__main__":
    seconds, *seed = sys.argv[1:]
    with TemporaryDirectory() as folder:
        process, api = serve(Path(folder, "local"), ACME_DIRECTORY="https://127.0.0.1/directory")
        try:
            outcome = runs.run(api, "--max-time", seconds, *(["--seed", *seed] if seed else []), capture=False)
        finally:
            process.terminate()
            process.wait(timeout=30)
    sys.exit(outcome.returncode)
