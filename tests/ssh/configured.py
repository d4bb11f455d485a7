"""OpenSSH servers with lines of their own in the configuration: a list of revoked keys, a certified host key."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import free_port
from tests.needs import need
from tests.ssh import sshd
from tests.ssh.sshd import Sshd


@contextmanager
def running(folder: Path, *lines: str) -> Iterator[Sshd]:
    """Run a server that trusts nobody yet; the files that the lines name must exist."""
    need("ssh", "sshd")
    program = shutil.which("sshd", path=os.pathsep.join((os.environ["PATH"], *sshd._SBIN)))
    assert program, "sshd is not installed"
    server = Sshd(folder, free_port())
    sshd._configure(server, program)
    with open(folder / "config", "a") as config:
        config.write("\n".join((*lines, "")))
    process = subprocess.Popen([program, "-D", "-f", str(folder / "config"), "-E", str(folder / "log")])
    try:
        sshd._await(server, process)
        yield server
    finally:
        process.terminate()
        process.wait(timeout=30)
