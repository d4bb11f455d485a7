"""`make reset`: forget what was created with `make run`. It needs nothing but Python."""

import os
import shutil
import sys
from pathlib import Path

from infra import CommandError
from infra.local import lock

FORGOTTEN = ("cloud.env", "env", "run")


def main() -> None:
    """Remove what runs keep in the folder, and nothing else; one sentence and exit status 1 during a run."""
    folder = Path(os.environ.get("LOCAL_DIR") or ".local")
    if not folder.is_dir():
        return
    try:
        lock.hold(folder, "nowhere", 0)
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
