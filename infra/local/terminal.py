"""What the person at the terminal is told, and what is written down for the shell, for its owner's eyes only."""

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from chalicelib.http import auth


def port(name: str, default: int) -> int:
    """Return the port that a variable names. Exits with one sentence when it is none."""
    text = os.environ.get(name) or str(default)
    if not (re.fullmatch("[0-9]{1,5}", text) and 0 < int(text) < 65536):
        raise SystemExit(f"{name}={text} is not a port: choose one from 1 to 65535.")
    return int(text)


def welcome(base_url: str, token: str, file: Path) -> str:
    """Return the text that tells how to begin."""
    return f"""
  Base URL  {base_url}
  API key   {token}

  Both are in {os.path.relpath(file)}; try:

  curl -H 'Authorization: Bearer {token}' -H '{auth.version_headers()[0]}: {auth.VERSIONS[0]}' {base_url}/api_keys

  'make edge' beside it gives what runs here public addresses: docs/edge.md
"""


def write(file: Path, variables: Mapping[str, str]) -> None:
    """Write variables to a file that a shell can read, for its owner's eyes only."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text("".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items()))


def write_exports(file: Path, variables: Mapping[str, str]) -> None:
    """Write variables as `write` does, exported to the programs that the shell starts."""
    write(file, {f"export {name}": value for name, value in variables.items()})


def read(file: Path) -> dict[str, str]:
    """Return the variables of such a file, {} when there is none."""
    if not file.exists():
        return {}
    words = shlex.split(file.read_text(errors="replace"))
    return {name: value for name, _, value in (word.partition("=") for word in words)}
