"""The terminals of one connection, and what was said before the first of them opened."""

from collections.abc import Callable

from chalicelib.model.tunnels import Proto
from edge.ssh.exchange import Exchange, Passage
from edge.ssh.terminal import Terminal

_LINES_KEPT = 20


class Terminals:
    """At most so many of a connection; `ready` is called when one has opened."""

    def __init__(self, most: int, ready: Callable[[], None]) -> None:
        self._most, self._ready = most, ready
        self._requested = 0
        self._open: list[Terminal] = []
        self._said: list[str] = []

    def request(self) -> Terminal | bool:
        """Return a further one, False when there are too many, of which some may not have opened yet."""
        if self._requested >= self._most:
            return False
        self._requested += 1
        return Terminal(self._opened, self._ended)

    def say(self, line: str) -> None:
        """Show a line in all."""
        self._said = [*self._said, line][-_LINES_KEPT:]
        for terminal in self._open:
            terminal.say(line)

    @property
    def has_any(self) -> bool:
        """Return whether a terminal is open or about to open."""
        return self._requested > 0

    @property
    def show_connections(self) -> bool:
        return any(terminal.shows_connections for terminal in self._open)

    def show(self, line: str) -> None:
        """Show a line of a connection to whoever has a terminal for it."""
        for terminal in self._open:
            if terminal.shows_connections:
                terminal.say(line)

    def shown(self, proto: Proto, address: str) -> Exchange | Passage:
        """Return the observer that shows a connection from an address here."""
        return Exchange(self) if proto == "https" else Passage(self, address)

    def end(self) -> None:
        """End all, since there is no tunnel to show."""
        for terminal in list(self._open):
            if not self._said:
                terminal.say("There is no shell here. To open a tunnel: ssh -R name:80:localhost:3000 …")
            terminal.exit(1)

    def _opened(self, terminal: Terminal) -> None:
        self._open.append(terminal)
        terminal.say(*self._said)
        self._ready()

    def _ended(self, terminal: Terminal) -> None:
        self._requested -= 1
        if terminal in self._open:
            self._open.remove(terminal)
