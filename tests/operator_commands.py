"""The operator's commands (`python -m chalicelib`) for tests that need what they do: forks of one process run them."""

import os
from collections.abc import Mapping
from functools import cache

from tests.conftest import ROOT
from tests.forked import Program


def run(cloud: Mapping[str, str], *arguments: str, stdin: str = "") -> str:
    """Return what a command prints that works on a cloud. Raises CalledProcessError."""
    result = _program().run(*arguments, environment={**os.environ, **cloud}, folder=ROOT, stdin=stdin)
    result.check_returncode()
    return result.stdout


@cache
def _program() -> Program:
    """Return the program. Its process ends with this one."""
    return Program("chalicelib")
