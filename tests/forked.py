"""Python programs that tests run many times: each is imported once, and every run is a fork of that process.

To start Python and to import a program takes most of a run's CPU time. A run has its own arguments, environment, folder
and streams, and ends as the program does. What is read while Python starts, or while the program is imported, is that
of the first process: a run for which that differs is started with `subprocess`.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from signal import SIGKILL
from tempfile import TemporaryFile

from infra import ROOT
from tests import fork_server


class Program:
    """A program as `python -m` starts it, in a process that is forked for each run."""

    def __init__(self, program: str, *modules: str, script: Path | None = None) -> None:
        """Import a program, and modules that its runs import. It is this project's, or that of an installed script."""
        self._name = str(script or program)
        python, folder = (script.with_name("python"), "") if script else (sys.executable, str(ROOT))
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [python, "-P", fork_server.__file__, str(theirs.fileno()), folder, program, *modules]
        with theirs:
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])

    def close(self) -> None:
        self._requests.close()
        self._process.wait(timeout=30)

    def run(
        self, *arguments: str, environment: Mapping[str, str], folder: Path, stdin: str = "", timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Return a run's exit status and what it said. Raises TimeoutExpired, as `subprocess.run` does."""
        request = {"arguments": arguments, "environment": {**environment}, "folder": str(folder), "name": self._name}
        with ExitStack() as open_files:
            streams = [open_files.enter_context(TemporaryFile("w+")) for _ in range(3)]
            streams[0].write(stdin)
            streams[0].seek(0)
            results, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            open_files.enter_context(results)
            descriptors = [*(stream.fileno() for stream in streams), theirs.fileno()]
            socket.send_fds(self._requests, [json.dumps(request).encode()], descriptors)
            theirs.close()
            process = int(results.recv(16))
            results.settimeout(timeout)
            try:
                status = int(results.recv(16))
            except TimeoutError:
                os.kill(process, SIGKILL)
                raise subprocess.TimeoutExpired([self._name, *arguments], timeout) from None
            for stream in streams:
                stream.seek(0)
            return subprocess.CompletedProcess([self._name, *arguments], status, streams[1].read(), streams[2].read())
