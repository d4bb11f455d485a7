"""Messages to the terminal, settings from the environment, and files with variables for the shell."""

import logging
import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from infra.local import files


def port(name: str, default: int) -> int:
    """Return the port in an environment variable. An invalid port exits with one sentence."""
    text = os.environ.get(name) or str(default)
    if not (re.fullmatch("[0-9]{1,5}", text) and 0 < int(text) < 65536):
        raise SystemExit(f"{name}={text} is not a port: choose one from 1 to 65535.")
    return int(text)


def welcome(base_url: str, token: str, file: Path) -> str:
    """Return the text that shows the address, the API key and a first request."""
    from chalicelib.http import auth  # imported here, because it imports botocore

    version = f"{auth.version_headers()[0]}: {auth.VERSIONS[0]}"
    return f"""
  Base URL  {base_url}
  API key   {token}
  Docs      {base_url}/docs

  The first two are in {os.path.relpath(file)}; try:

  . {shlex.quote(os.path.relpath(file))}; curl -H "Authorization: Bearer $API_KEY" -H '{version}' "$BASE_URL/api_keys"
"""


def say(text: str) -> None:
    """Print a text. If the terminal is closed, the service continues without the text."""
    try:
        print(text, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def outlive_output() -> None:
    """Ignore log lines that cannot be written, instead of printing a traceback for each."""
    logging.raiseExceptions = False


def write(file: Path, variables: Mapping[str, str]) -> None:
    """Write variables for a shell to a file that only its owner can read."""
    files.write(file, "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items()))


def write_exports(file: Path, variables: Mapping[str, str]) -> None:
    """Write variables like `write`, each with `export`, so that the programs of a shell receive them."""
    write(file, {f"export {name}": value for name, value in variables.items()})


def read(file: Path) -> dict[str, str]:
    """Return a file's variables, or {} if it is missing or malformed."""
    if not file.exists():
        return {}
    try:
        words = shlex.split(file.read_text(errors="replace"))
    except ValueError:
        return {}
    return {name: value for name, equals, value in (word.partition("=") for word in words) if equals}
