"""The open ports of TCP on this host: control writes a file for each, and the gateway beside it reads them."""

import shutil
from contextlib import suppress
from pathlib import Path

_FOLDER = "ports"  # each file is named after a port and holds the id of its tunnel


class OpenPorts:
    """The ports that Envoy has opened for tunnels. `directory` is the one that control and the gateway share."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / _FOLDER

    def clear(self) -> None:
        """Begin without open ports. Raises OSError."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700)

    def add(self, port: str, tunnel: str) -> None:
        """Record that a port is open for a tunnel. Raises OSError."""
        (self._folder / port).write_text(tunnel)

    def remove(self, port: str) -> None:
        """Record that a port is closed. Raises OSError."""
        (self._folder / port).unlink(missing_ok=True)

    def is_open(self, port: str, tunnel: str) -> bool:
        """Return whether a port is open for a tunnel, or no control of this host can tell."""
        with suppress(FileNotFoundError):
            return (self._folder / port).read_text() == tunnel
        return not self._folder.exists()
