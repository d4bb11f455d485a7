"""The inputs and products of a package, recorded beside it: unchanged inputs are not packaged again."""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from infra import ROOT

_INPUTS = (".chalice", "app.py", "chalicelib", "infra/deploy", "infra/environments.py")
_REQUIREMENTS = ("requirements.txt", "requirements-dev.txt")  # of the package; of the tools that make it
_PRODUCTS = ("deployment.zip", "sam.json", "translated.json")
_IGNORED = {"__pycache__", "deployments", "deployed"}
_FILE = "fingerprint.json"


def of_inputs(*choices: str) -> str:
    """Return the digest of all that a package is made from, this Python included."""
    digest = hashlib.sha256(repr((choices, sys.version)).encode())
    for file in sorted(_files()):
        digest.update(f"{file.relative_to(ROOT)} {_digest(file)}\n".encode())
    return digest.hexdigest()


def is_current(folder: Path, inputs: str) -> bool:
    """Return whether a folder holds the whole package that was made from these inputs."""
    try:
        recorded = json.loads((folder / _FILE).read_text())
        return bool(recorded == _record(folder, inputs))
    except (OSError, ValueError):
        return False


def write(folder: Path, inputs: str) -> None:
    """Record that the package in a folder is complete and checked."""
    (folder / _FILE).write_text(json.dumps(_record(folder, inputs)))


def _record(folder: Path, inputs: str) -> dict[str, str]:
    return {"inputs": inputs, **{name: _digest(folder / name) for name in _PRODUCTS}}


def _files() -> Iterator[Path]:
    for place in (ROOT / name for name in (*_INPUTS, *_REQUIREMENTS)):
        found = place.rglob("*") if place.is_dir() else [place]
        yield from (file for file in found if file.is_file() and not _IGNORED & {*file.relative_to(ROOT).parts})


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
