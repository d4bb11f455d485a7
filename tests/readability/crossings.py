"""Crossings: how many files a piece of work enters, and how often control passes from one file to another."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from tests.conftest import ROOT


@dataclass(frozen=True)
class Trace:
    """The calls of functions in some folders, in their order, each as the file that defines the function."""

    calls: tuple[str, ...]

    @property
    def files(self) -> int:
        return len(set(self.calls))

    @property
    def crossings(self) -> int:
        """The calls in another file than the call before them."""
        return sum(caller != callee for caller, callee in zip(self.calls, self.calls[1:], strict=False))


def trace_calls(work: Callable[[], object], *folders: str) -> Trace:
    """Run some work and return its calls in the folders; comprehensions and lambdas do not count."""
    starts = tuple(f"{Path(ROOT) / folder}/" for folder in folders)
    calls: list[str] = []

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(starts) and not code.co_name.startswith("<"):
            calls.append(code.co_filename)

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return Trace(tuple(calls))
