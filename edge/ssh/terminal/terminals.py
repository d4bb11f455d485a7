"""The terminals of one SSH connection. A new terminal first shows the recent events of the connection."""

from collections.abc import Callable

from chalicelib.model.tunnels.tunnels import Proto
from edge.ssh.terminal.client_events import Event, Notice
from edge.ssh.terminal.exchange import HttpView, StreamView
from edge.ssh.terminal.terminal import Terminal

_MAX_EVENTS = 20  # the number of recent events that a new terminal shows
_USAGE = Notice("There is no shell here. To open a tunnel: ssh -R name:80:localhost:3000 …")


class Terminals:
    """The terminals of an SSH connection, at most `limit`. `on_ready` is called when a terminal has opened."""

    def __init__(self, limit: int, on_ready: Callable[[], None]) -> None:
        self._limit, self._on_ready = limit, on_ready
        self._requested = 0
        self._open: list[Terminal] = []
        self._events: list[Event] = []

    def request(self) -> Terminal | bool:
        """Return a new terminal, or False if there are too many."""
        if self._requested >= self._limit:
            return False
        self._requested += 1
        return Terminal(self._on_open, self._on_end)

    def show(self, event: Event) -> None:
        """Show an event in all terminals."""
        self._events = [*self._events, event][-_MAX_EVENTS:]
        for terminal in self._open:
            terminal.show(event)

    @property
    def has_any(self) -> bool:
        """Return whether a terminal is open or about to open."""
        return self._requested > 0

    @property
    def show_connections(self) -> bool:
        return any(terminal.shows_connections for terminal in self._open)

    def show_connection(self, event: Event) -> None:
        """Show an event of a visitor's connection in the terminals that show connections."""
        for terminal in self._open:
            if terminal.shows_connections:
                terminal.show_connection(event)

    def create_view(self, proto: Proto, address: str) -> HttpView | StreamView:
        """Return the observer that shows a connection of a visitor with this address."""
        return HttpView(self) if proto == "https" else StreamView(self, address)

    def end(self) -> None:
        """End all terminals that show text.

        A program that reads the subsystem `events` decides itself when to leave.
        """
        for terminal in [terminal for terminal in self._open if not terminal.is_subsystem]:
            if not self._events:
                terminal.show(_USAGE)
            terminal.exit(1)

    def _on_open(self, terminal: Terminal) -> None:
        self._open.append(terminal)
        terminal.show(*self._events)
        self._on_ready()

    def _on_end(self, terminal: Terminal) -> None:
        self._requested -= 1
        if terminal in self._open:
            self._open.remove(terminal)
