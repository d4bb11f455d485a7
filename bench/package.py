"""The Lambda package, unpacked, and beside it what Lambda's runtime has: all that a function finds there."""

import importlib.util
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from infra import ROOT, CommandError

_RUNTIME = ("boto3", "botocore", "dateutil", "jmespath", "s3transfer", "six", "urllib3")
_ARCHIVE = ROOT / "build" / "dev" / "deployment.zip"


@contextmanager
def unpacked() -> Iterator[list[str]]:
    """Yield the command of a Python that finds only the package and the runtime; `-c` and code follow."""
    if not _ARCHIVE.exists():
        raise CommandError("There is no package to measure: make one with 'make package STAGE=dev'.")
    with TemporaryDirectory() as folder:
        package, runtime = Path(folder, "package"), Path(folder, "runtime")
        with zipfile.ZipFile(_ARCHIVE) as archive:
            archive.extractall(package)
        runtime.mkdir()
        for name in _RUNTIME:
            _link(name, runtime)
        start = f"import sys; sys.path[:0] = {[str(package), str(runtime)]!r}; exec(sys.argv[1])"
        yield [sys.executable, "-I", "-S", "-c", start]


def _link(name: str, runtime: Path) -> None:
    """Put an installed package there; its compiled code comes with it."""
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise CommandError(f"{name}, which Lambda's runtime has, is not installed.")
    origin = Path(found.origin)
    installed = origin.parent if origin.name == "__init__.py" else origin
    (runtime / installed.name).symlink_to(installed)
