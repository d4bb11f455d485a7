"""The wheel of the Terraform provider, with the translated OpenAPI document in it."""

import json
from pathlib import Path

from chalicelib.documents import openapi
from infra import ROOT
from infra.build import wheels
from infra.build.terraform import kinds

_SOURCE = ROOT / "terraform"
PYTHON = ROOT / ".venv-terraform" / "bin" / "python"
KINDS = _SOURCE / "tunneledge_provider" / "kinds.json"


def build_wheel(folder: Path) -> Path:
    """Write the wheel into a folder, and return its path. Raises CommandError."""
    document = json.loads(openapi.FILE.read_text(encoding="utf-8"))
    wheels.write(KINDS, json.dumps(kinds.translate(document), ensure_ascii=False, separators=(",", ":")))
    return wheels.build(_SOURCE, PYTHON, folder)


def install(wheel: Path, environment: Path) -> Path:
    """Install a wheel in a new environment, with its dependencies from .venv-terraform. Return its program's path."""
    return wheels.install(wheel, PYTHON, environment) / "terraform-provider-tunneledge"
