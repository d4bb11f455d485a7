"""The exit codes, and the error that a command reports before it exits with one of them."""

from collections.abc import Mapping
from typing import Any

FAILED = 1
USAGE = 2
NOT_FOUND = 3
NOT_SIGNED_IN = 4
UNREACHABLE = 5
CONFLICT = 6
TUNNEL_REJECTED = 7
INTERRUPTED = 130


class CommandError(Exception):
    """A command failed. The message is for the person at the terminal.

    `body` is the JSON object with which the service rejected a request, or empty.
    """

    def __init__(self, message: str, code: int = FAILED, body: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code, self.body = code, body or {}
