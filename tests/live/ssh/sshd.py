"""A real OpenSSH server on loopback, told which authorities to trust, and logins to it by certificate.

It reads whom to trust at every login, so one server serves all tests; its log says why it refused.
"""

import os
import pwd
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import free_port
from tests.live.ssh import keygen
from tests.live.ssh.keygen import KeyPair
from tests.needs import need

HOST = "127.0.0.1"
USER = pwd.getpwuid(os.getuid()).pw_name
_SBIN = ("/usr/sbin", "/usr/local/sbin")  # on the path of few users, and sshd wants its whole path
_FAKETIME = "/usr/$LIB/faketime/libfaketime.so.1"  # as Debian installs it; the loader fills $LIB in
_REASON = re.compile(r"Certificate (?!extension)|cert: ")  # extensions that sshd does not know are no reason
_OPTIONS = (
    "IdentitiesOnly=yes",
    "IdentityAgent=none",
    "BatchMode=yes",
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "LogLevel=ERROR",  # without the warning that the host key is new
)
_CONFIG = """
ListenAddress {host}:{port}
HostKey {folder}/host_key
TrustedUserCAKeys {folder}/trusted
AuthorizedKeysFile {folder}/authorized_keys
AuthenticationMethods publickey
PermitRootLogin yes
Subsystem sftp internal-sftp
LogLevel VERBOSE
PidFile none
PrintMotd no
StrictModes no
UsePAM no
PermitUserRC no
SetEnv HOME={folder}
"""  # the last two keep the start-up files of whoever runs the tests out of what they judge


@dataclass(frozen=True)
class Signed:
    """A key pair, and the service's answer when it was asked to sign it."""

    key: KeyPair
    certificate: dict[str, Any]


@dataclass(frozen=True)
class Login:
    """How an attempt to log in ended: what `ssh` tells, and the reason that the server logged for a refusal."""

    status: int
    output: str
    complaint: str
    reason: str


def accepted(output: str) -> Login:
    return Login(0, output, "", "")


def refused(reason: str) -> Login:
    return Login(255, "", f"{USER}@{HOST}: Permission denied (publickey).\n", reason)


@dataclass(frozen=True)
class Sshd:
    """A running server and the folder of its files."""

    folder: Path
    port: int

    def trust(self, authority: dict[str, Any]) -> None:
        """Let the certificates of an authority in, by TrustedUserCAKeys."""
        _append(self.folder / "trusted", authority["public_key"])

    def authorize(self, authority: dict[str, Any]) -> None:
        """Let the certificates of an authority in, by authorized_keys."""
        _append(self.folder / "authorized_keys", f"cert-authority {authority['public_key']}")

    def login(self, identity: Signed, *command: str) -> Login:
        """Log in as the user who runs the tests. Options of `ssh` may stand before the command."""
        certificate, log = self.folder / identity.certificate["id"], self.folder / "log"
        certificate.write_text(identity.certificate["certificate"] + "\n")
        options = [f"-o{option}" for option in (*_OPTIONS, f"CertificateFile={certificate}")]
        target = ["-F", "none", "-i", str(identity.key.private), *options, "-p", str(self.port), f"{USER}@{HOST}"]
        logged = log.stat().st_size
        result = subprocess.run(
            ["ssh", *target, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30
        )
        reasons = filter(_REASON.match, log.read_bytes()[logged:].decode().splitlines())
        return Login(result.returncode, result.stdout, result.stderr, "\n".join(reasons))


@contextmanager
def running(folder: Path, *lines: str, behind: int = 0) -> Iterator[Sshd]:
    """Run a server that trusts nobody yet, with further lines of its configuration; files in them must exist.

    Its clock is so many seconds behind.
    """
    need("ssh", "sshd")
    program = shutil.which("sshd", path=os.pathsep.join((os.environ["PATH"], *_SBIN)))
    assert program, "sshd is not installed"
    server = Sshd(folder, free_port())
    _configure(server, program)
    _append(folder / "config", *lines)
    environment = {**os.environ, **({"LD_PRELOAD": _FAKETIME, "FAKETIME": f"-{behind}s"} if behind else {})}
    words = [program, "-D", "-f", str(folder / "config"), "-E", str(folder / "log")]
    process = subprocess.Popen(words, env=environment)
    try:
        _await(server, process)
        yield server
    finally:
        process.terminate()
        process.wait(timeout=30)


def _configure(server: Sshd, program: str) -> None:
    folder, config = server.folder, server.folder / "config"
    keygen.generate(folder / "host_key", "ed25519", 256)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # without it sshd does not start as root
    for name in ("trusted", "authorized_keys"):
        (folder / name).touch()
    config.write_text(_CONFIG.format(host=HOST, port=server.port, folder=folder))
    configuration = subprocess.run(
        [program, "-T", "-f", str(config)], check=True, capture_output=True, text=True
    ).stdout
    if "persourcepenalties" in configuration:  # from 9.8 on sshd locks out those who fail often, as these tests must
        _append(config, "PerSourcePenalties no")


def _await(server: Sshd, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex((HOST, server.port)) == 0:
                return
    raise AssertionError((server.folder / "log").read_text())


def _append(file: Path, *lines: str) -> None:
    with open(file, "a") as appended:
        appended.writelines(f"{line}\n" for line in lines)
