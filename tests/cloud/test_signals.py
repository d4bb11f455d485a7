"""Wherever a start of the embedded cloud is broken off, it ends, and leaves no cloud behind."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, free_port, processes_with

# Ctrl-C in the middle of Popen: where it has the process already, and its caller does not; where it holds its lock.
MOMENTS = {"_execute_child": "popen._child_created", "_internal_poll": "popen._waitpid_lock.locked()"}
START = """
import signal, subprocess, sys
from pathlib import Path
from infra.local import signals
from infra.local.cloud import Cloud

def watch(frame, event, _):
    popen = frame.f_locals.get("self")
    if frame.f_code.co_filename != subprocess.__file__ or frame.f_code.co_name != {function!r}:
        return watch if event == "call" else None
    if event == "line" and {moment}:
        sys.settrace(None)
        frame.f_trace = None
        print("interrupted", flush=True)
        signal.raise_signal(signal.SIGINT)
    return watch

signals.interrupt()
embedded = Cloud(Path({state!r}), {port})
sys.settrace(watch)
try:
    embedded.start()
finally:
    sys.settrace(None)
    embedded.stop()
"""


@pytest.mark.parametrize("function", MOMENTS)
def test_an_interrupt_in_the_middle_of_a_start_neither_hangs_nor_leaves_a_cloud(tmp_path: Path, function: str) -> None:
    script = START.format(function=function, moment=MOMENTS[function], state=str(tmp_path / "cloud"), port=free_port())
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert done.stdout == "interrupted\n", done.stderr
    assert done.stderr.endswith("KeyboardInterrupt\n")
    assert processes_with(f"STATE_DIR={tmp_path / 'cloud'}") == []
