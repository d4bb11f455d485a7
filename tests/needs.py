"""A test that needs what the machine lacks is not run, and the run says so, first and last. With CI=true it fails."""

import os
import re
from functools import cache

import pytest

from tests import machine

_REASON = "needs "
_lacks = cache(machine.lacks)


def need(*names: str) -> None:
    """Skip this test, or fail it with CI=true, where the machine lacks one of these names in machine.NEEDS.

    What no registry has is never an error.
    """
    if missing := [name for name in names if _lacks(name)]:
        reason = _REASON + ", ".join(missing)
        if os.environ.get("CI") == "true" and (advice := machine.advice(missing)):
            pytest.fail(f"{reason}: {advice}", pytrace=False)
        pytest.skip(reason)


def told_first() -> str:
    """Return the machine's missing tools with the commands that install them, "" when there are none."""
    missing = machine.list_lacking()
    advice = ". ".join(filter(None, [machine.advice(missing), machine.elsewhere(missing)]))
    return f"This machine lacks {', '.join(missing)}: {advice}" if missing else ""


def told_last(passed: int, reasons: list[str]) -> str:
    """Return how many tests were not run, and why; "" when all were. `reasons` are those of the skipped tests."""
    missed = [reason for reason in reasons if reason.removeprefix("Skipped: ").startswith(_REASON)]
    names = sorted({name for reason in missed for name in re.split(", ", reason.partition(_REASON)[2])})
    return f"{passed:,} passed, {len(missed):,} not run: {', '.join(names)}" if missed else ""
