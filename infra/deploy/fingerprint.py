"""Digests of a package and its inputs. If they are unchanged, the package is not made again."""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from infra import ROOT

_INPUTS = (".chalice", "app.py", "chalicelib", "infra/deploy", "infra/environments.py")
# the requirements of the package, and of the tools that make the package
_REQUIREMENTS = ("requirements.txt", "requirements-dev.txt")
_PRODUCTS = ("deployment.zip", "sam.json", "sbom.json", "translated.json")
_IGNORED = {"__pycache__", "deployments", "deployed"}
_FILE = "fingerprint.json"


def compute(*choices: str) -> str:
    """Return the digest of a package's inputs, including this Python's version."""
    digest = hashlib.sha256(repr((choices, sys.version)).encode())
    for file in sorted(_files()):
        digest.update(f"{file.relative_to(ROOT)} {_digest(file)}\n".encode())
    return digest.hexdigest()


def is_current(folder: Path, inputs: str) -> bool:
    """Return whether a folder has a complete package of these inputs."""
    try:
        recorded = json.loads((folder / _FILE).read_text())
        return bool(recorded == _record(folder, inputs))
    except (OSError, ValueError):
        return False


def write(folder: Path, inputs: str) -> None:
    """Record the digests of a complete and checked package."""
    (folder / _FILE).write_text(json.dumps(_record(folder, inputs)))


def _record(folder: Path, inputs: str) -> dict[str, str]:
    return {"inputs": inputs, **{name: _digest(folder / name) for name in _PRODUCTS}}


def _files() -> Iterator[Path]:
    for path in (ROOT / name for name in (*_INPUTS, *_REQUIREMENTS)):
        files = path.rglob("*") if path.is_dir() else [path]
        yield from (file for file in files if file.is_file() and not _IGNORED & {*file.relative_to(ROOT).parts})


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
