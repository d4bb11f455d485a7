"""The unpacked Lambda package and the packages of Lambda's runtime."""

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
    """Yield the command of a Python that can import only these packages. Append the code to run."""
    if not _ARCHIVE.exists():
        raise CommandError("The package to measure is missing: build it with 'make package STAGE=dev'.")
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
    """Link an installed package, with its compiled code, into the runtime."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise CommandError(f"The package {name} of Lambda's runtime is not installed.")
    origin = Path(spec.origin)
    installed = origin.parent if origin.name == "__init__.py" else origin
    (runtime / installed.name).symlink_to(installed)
