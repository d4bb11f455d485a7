"""Opens URLs in the user's browser."""

import os
import shlex
import subprocess
import sys

from tunnel_edge import output
from tunnel_edge.errors import NOT_SIGNED_IN, CommandError


def is_allowed() -> bool:
    """Return whether a browser may be opened: on a terminal, or if `BROWSER` is set."""
    return bool(os.environ.get("BROWSER")) or (sys.stdin.isatty() and sys.stderr.isatty())


def forbid() -> None:
    """Forbid this process to open a browser."""
    os.environ.pop("BROWSER", None)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


def open_address(url: str) -> None:
    """Open a URL in the browser, and print it. Raises CommandError."""
    output.note(f"Sign in with your browser. If it does not open, open this address:\n{url}")
    if chosen := os.environ.get("BROWSER"):
        words = shlex.split(chosen)
        command = [word.replace("%s", url) for word in words] if "%s" in chosen else [*words, url]
        _start(command)
    else:
        import webbrowser

        webbrowser.open(url)


def _start(command: list[str]) -> None:
    """Start a program without a shell. The program continues when this process ends."""
    try:
        none = subprocess.DEVNULL
        subprocess.Popen(command, stdin=none, stdout=none, stderr=none, start_new_session=True)
    except OSError as error:
        raise CommandError(f"The program in BROWSER could not be started: {error}", NOT_SIGNED_IN) from error
