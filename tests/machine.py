"""What the tests need of the machine beside Python and make. `python3 tests/machine.py` prints what it lacks.

`.ci/run` installs what is listed here; a test that needs what is not there is not run, and `make test` says so.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])  # sshd's place is on few paths


class Need(NamedTuple):
    """Programs, each as the names of which one is enough, with the packages of Debian; or a file that make makes.

    `tried` is a command that some machines refuse, as most containers do namespaces. `elsewhere` says where a program
    is from that no registry has: its tests are not run without it, in CI either.
    """

    programs: tuple[tuple[str, ...], ...] = ()
    packages: tuple[str, ...] = ()
    file: str = ""
    tried: tuple[str, ...] = ()
    elsewhere: str = ""


NEEDS = {
    "bash": Need((("bash",),), ("bash",)),
    "chromium": Need((("chromium", "google-chrome"), ("chromedriver",)), ("chromium", "chromium-driver")),
    "curl": Need((("curl",),), ("curl",)),
    "dropbear": Need((("dbclient",), ("dropbearconvert",)), ("dropbear-bin",)),
    "fail2ban": Need((("fail2ban-regex",), ("fail2ban-server",)), ("fail2ban",)),
    "faketime": Need((("faketime",),), ("faketime",)),
    "fish": Need((("fish",),), ("fish",)),
    "go": Need((("go",),), ("golang-go",)),
    "java": Need((("java",),), ("default-jre-headless",)),
    "jq": Need((("jq",),), ("jq",)),
    "libssh": Need(
        (("python3",),),
        ("libssh-4",),
        tried=("python3", "-c", "import ctypes; ctypes.CDLL('libssh.so.4')"),
    ),
    "nftables": Need(
        (("nft",), ("ip",), ("unshare",)),
        ("nftables", "iproute2", "util-linux"),
        tried=("unshare", "--map-root-user", "--net", "true"),
    ),
    "npm": Need((("npm",), ("node",)), ("nodejs", "npm")),
    "openssl": Need((("openssl",),), ("openssl",)),
    "putty": Need((("plink",), ("puttygen",)), ("putty-tools",)),
    "redis": Need((("redis-server",), ("redis-cli",)), ("redis-server", "redis-tools")),
    "ssh": Need((("ssh",), ("ssh-keygen",)), ("openssh-client",)),
    "pebble": Need((("pebble",),), ("pebble",)),
    "promtool": Need((("promtool",),), ("prometheus",)),
    "sshd": Need((("sshd",),), ("openssh-server",)),
    "systemd": Need((("systemd-analyze",),), ("systemd",)),
    "terraform": Need((("terraform",),), elsewhere="HashiCorp's site has it, and no registry of packages"),
    "zsh": Need((("zsh",),), ("zsh",)),
    "the compiler of the TypeScript client": Need(file="infra/build/clients/typescript/node_modules/ready"),
    "the embedded cloud": Need(file=".venv-cloud/ready"),
    "the environment of make": Need(file=".venv/dev"),
    "the environment of the Terraform provider": Need(file=".venv-terraform/ready"),
    "the generator of the Go client": Need(file=".venv-clients/ready"),
    "the environment of the command line": Need(file=".venv-cli/ready"),
    "the live edge": Need(file=".venv-edge/ready"),
    "the page of the reference": Need(file="chalicelib/documents/docs.html"),
}


def lacks(name: str) -> bool:
    need = NEEDS[name]
    programs = all(any(shutil.which(program, path=_PATH) for program in names) for names in need.programs)
    is_installed = not need.file or (ROOT / need.file).exists()
    return not (programs and is_installed and (not need.tried or _succeeds(need.tried)))


def _succeeds(command: tuple[str, ...]) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0


def list_lacking() -> list[str]:
    """Return all that is not there."""
    return [name for name in NEEDS if lacks(name)]


def elsewhere(names: list[str]) -> str:
    """Return where those of the named are from that no command installs."""
    return ", ".join(f"{name}: {NEEDS[name].elsewhere}" for name in names if NEEDS[name].elsewhere)


def packages(names: list[str]) -> list[str]:
    """Debian's packages of what is named."""
    return [package for name in names for package in NEEDS[name].packages]


def advice(names: list[str]) -> str:
    """Return the commands that install what is named, in one line."""
    root = "" if os.geteuid() == 0 else "sudo "
    installed, targets = packages(names), [NEEDS[name].file for name in names if NEEDS[name].file]
    commands = [f"{root}apt-get install -y --no-install-recommends {' '.join(installed)}"] if installed else []
    return " && ".join([*commands, *([f"make {' '.join(targets)}"] if targets else [])])


if __name__ == "__main__":
    print(*packages([name for name in list_lacking() if NEEDS[name].packages]))
