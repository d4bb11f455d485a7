"""Reads and writes files that only the user may read, in folders that only the user may enter."""

import os
import stat
from pathlib import Path

from tunnel_edge.errors import NOT_SIGNED_IN, CommandError


def config_folder() -> Path:
    """Return the folder of `config.toml`."""
    if chosen := os.environ.get("TE_CONFIG_DIR"):
        return Path(chosen)
    from platformdirs import user_config_path

    return user_config_path("te", appauthor=False)


def state_folder() -> Path:
    """Return the folder of credentials, keys, host keys and sockets."""
    if chosen := os.environ.get("TE_CONFIG_DIR"):
        return Path(chosen)
    from platformdirs import user_state_path

    return user_state_path("te", appauthor=False)


def private_folder(folder: Path) -> Path:
    """Create a folder of `te`, or correct the mode of an existing one. Return its path.

    The folder, and its parents up to the configuration or state folder of `te`, get mode 0700.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for own_folder in _own_folders(folder):
        if os.name == "posix" and stat.S_IMODE(own_folder.stat().st_mode) != 0o700:
            own_folder.chmod(0o700)
    return folder


def _own_folders(folder: Path) -> list[Path]:
    """Return a folder, and its parents up to the folder of `te`."""
    roots = (config_folder(), state_folder())
    above = [parent for parent in folder.parents if any(parent.is_relative_to(root) for root in roots)]
    return [folder, *above]


def write_private(file: Path, content: bytes) -> None:
    """Write a file of `te` atomically, with mode 0600. Create its folder."""
    private_folder(file.parent)
    write_secret(file, content)


def write_secret(file: Path, content: bytes) -> None:
    """Write a file in any folder atomically, with mode 0600."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as output:
            output.write(content)
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_private(file: Path) -> bytes | None:
    """Return the content of a file, or None if it does not exist.

    Raises CommandError if another user owns it or can read it.
    """
    try:
        with file.open("rb") as opened:
            if os.name == "posix":
                _check(file, os.fstat(opened.fileno()))
            return opened.read()
    except FileNotFoundError:
        return None


def _check(file: Path, status: os.stat_result) -> None:
    """Raise CommandError if another user owns the file or can read it."""
    if status.st_uid != os.geteuid():
        raise CommandError(f"{file} belongs to another user. Remove it, and sign in again: rm '{file}'", NOT_SIGNED_IN)
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise CommandError(f"Other users can read {file}. Permit only yourself: chmod 600 '{file}'", NOT_SIGNED_IN)
