"""Installs the provider into a folder of plugins, which `terraform init` reads."""

import platform
import shlex
import sys
from pathlib import Path

from tunneledge_provider import ADDRESS, NAME, __version__

FOLDER = Path.home() / ".terraform.d" / "plugins"  # the folder that Terraform searches by default
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "amd64": "amd64", "arm64": "arm64"}


def install(folder: Path) -> Path:
    """Write the program that Terraform starts into a folder of plugins, and return its path."""
    target = folder / ADDRESS / __version__ / f"{platform.system().lower()}_{_machine()}"
    target.mkdir(parents=True, exist_ok=True)
    program = target / f"terraform-provider-{NAME}_v{__version__}"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m {__package__} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return program


def _machine() -> str:
    machine = platform.machine().lower()
    return _MACHINES.get(machine, machine)
