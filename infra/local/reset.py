"""`make reset`: remove what `make run` has stored. It needs nothing but Python."""

import os
import shutil
import sys
from pathlib import Path

from infra import CommandError
from infra.local import lock

FORGOTTEN = ("cloud.env", "env", "run")


def main() -> None:
    """Remove the files of `make run`, and nothing else. During a run it exits with status 1."""
    folder = Path(os.environ.get("LOCAL_DIR") or ".local")
    if not folder.is_dir():
        return
    try:
        lock.hold_folder(folder, "nowhere", 0)
        if (folder / "cloud").exists():
            shutil.rmtree(folder / "cloud")
        for name in FORGOTTEN:
            (folder / name).unlink(missing_ok=True)
    except CommandError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"{error.filename} cannot be removed ({error.strerror}).")


if __name__ == "__main__":
    main()
