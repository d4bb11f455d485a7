"""The TCP ports that Envoy has opened on this host. Control writes a file for each port, and the gateway reads it."""

import shutil
from contextlib import suppress
from pathlib import Path

# this folder has a file for each open port, with the port as its name and the tunnel's id as its content
_FOLDER = "ports"


class OpenPorts:
    """The ports that Envoy has opened for tunnels. Control and the gateway share `directory`."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / _FOLDER

    def clear(self) -> None:
        """Record that no port is open. Raises OSError."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700)

    def add(self, port: str, tunnel: str) -> None:
        """Record that a port is open for a tunnel. Raises OSError."""
        (self._folder / port).write_text(tunnel)

    def remove(self, port: str) -> None:
        """Record that a port is closed. Raises OSError."""
        (self._folder / port).unlink(missing_ok=True)

    def is_open(self, port: str, tunnel: str) -> bool:
        """Return whether a port is open for a tunnel.

        If no control process runs on this host, every port counts as open.
        """
        with suppress(FileNotFoundError):
            return (self._folder / port).read_text() == tunnel
        return not self._folder.exists()
