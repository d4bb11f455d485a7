"""Import a Python program once, and fork for each of its runs: what `tests.forked` starts, in any environment.

The arguments are the number of a socket, the folder to import from or "", the name of the program's package, and the
modules that its runs import.
"""

import atexit
import gc
import json
import os
import runpy
import socket
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any

_status = [0]  # of this process


def main(descriptor: str, folder: str, program: str, *modules: str) -> None:
    """Import a program. Run it in a process of its own for each request that the socket brings, until that closes."""
    atexit.register(_end)  # first, to be called last
    sys.path[:0] = filter(None, [folder])
    for module in (f"{program}.__main__", *modules):
        import_module(module)
    del sys.modules[f"{program}.__main__"]  # each run executes it
    gc.collect()
    gc.freeze()  # or each run would copy all that is imported
    with socket.socket(fileno=int(descriptor)) as requests:
        run = _await_run(requests)
    if run:
        sys.argv = run
        _execute(program)


def _execute(program: str) -> None:
    """Execute a program, and note the status that Python ends it with."""
    _status[0] = 1  # of an exception that nobody catches
    try:
        runpy.run_module(program, run_name="__main__")
        _status[0] = 0
    except SystemExit as end:
        _status[0] = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise


def _end() -> None:
    """End a process without taking apart all that is imported: that would copy what it shares with the first one."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_status[0])


def _await_run(requests: socket.socket) -> list[str] | None:
    """Return the arguments of a run, in the process of that run. Return None when there are no more."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, 1 << 20, 4)
        while _has_reaped():
            pass
        if not message:
            return None
        if os.fork():
            for descriptor in descriptors:
                os.close(descriptor)
            continue
        request = json.loads(message)
        *streams, results = descriptors
        with socket.socket(fileno=results) as channel:
            if pid := os.fork():
                _report(pid, channel, streams)
        _become(request, streams)
        return [request["name"], *request["arguments"]]


def _has_reaped() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] > 0
    except ChildProcessError:
        return False


def _report(pid: int, channel: socket.socket, streams: Sequence[int]) -> None:
    """Say the id of a run's process, and its exit status at its end. Then end this process, which only waits."""
    for stream in (*streams, 0, 1, 2):
        os.close(stream)
    channel.send(str(pid).encode())
    channel.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
    os._exit(0)


def _become(request: dict[str, Any], streams: Sequence[int]) -> None:
    """Give this process the streams, the folder and the environment of a run."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()


if __name__ == "__main__":
    main(*sys.argv[1:])
