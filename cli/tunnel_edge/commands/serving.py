"""Serves a tunnel, and the inspector if it is chosen, until Ctrl-C.

Call `library.import_asyncssh` before importing this module.
"""

import asyncio
import contextlib
import gc
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tunnel_edge import output
from tunnel_edge.errors import FAILED, USAGE, CommandError
from tunnel_edge.tunnels.gateways import Gateway
from tunnel_edge.tunnels.material import SignIns
from tunnel_edge.tunnels.relay import NoTap, Relay, Tap
from tunnel_edge.tunnels.requested import LocalServer, RequestedTunnel
from tunnel_edge.tunnels.run import Run


class Terminal:
    """Shows the progress of a tunnel at the terminal. Only the address of the tunnel goes to standard output.

    `segno` is the package for QR codes, or None to show no QR code.
    """

    def __init__(self, segno: Any, server: LocalServer) -> None:
        self._segno, self._server = segno, server
        self.url = ""  # the public URL of the tunnel, as soon as the tunnel is open
        self._last = ""

    def show_address(self, url: str) -> None:
        self.url = url
        print(output.to_plain(url).replace("\n", ""), flush=True)
        self.note(f"Requests go to {self._server}. Ctrl-C ends the tunnel.")
        if self._segno:
            self._segno.make(url).terminal(out=sys.stderr, compact=True)

    def show_request(self, event: Mapping[str, Any]) -> None:
        """If standard error is a terminal, show a visitor's request on one line, as the gateway does for `ssh -R`."""
        if sys.stderr.isatty():
            answer = "no answer" if event.get("status") is None else f"{event.get('status')}  {event.get('ms')} ms"
            self.note(f"{event.get('client')}  {event.get('method')} {event.get('path')}  {answer}")

    def note(self, text: str) -> None:
        output.note(text.replace("\r", "").replace("\n", " "))

    def note_once(self, text: str) -> None:
        """Show a sentence, unless the previous call had the same sentence."""
        if text != self._last:
            self._last = text
            self.note(text)


def load_qr() -> Any:
    """Return the package for QR codes. Raises CommandError if it is not installed."""
    try:
        import segno
    except ImportError:
        raise CommandError("--qr needs the package segno: install tunnel-edge-cli[qr].", USAGE) from None
    return segno


def serve(
    tunnel: RequestedTunnel,
    server: LocalServer,
    sign_ins: SignIns,
    fetch: Callable[[], tuple[Gateway, ...]],
    screen: Terminal,
    inspect_port: int | None,
) -> None:
    """Serve a tunnel until Ctrl-C. `inspect_port` is None without an inspector, and 0 for a free port."""
    asyncio.run(_serve(tunnel, server, sign_ins, fetch, screen, inspect_port))


async def _serve(
    tunnel: RequestedTunnel,
    server: LocalServer,
    sign_ins: SignIns,
    fetch: Callable[[], tuple[Gateway, ...]],
    screen: Terminal,
    inspect_port: int | None,
) -> None:
    """Serve until cancelled by Ctrl-C or SIGTERM."""
    if task := asyncio.current_task():
        with contextlib.suppress(NotImplementedError):  # Windows has no signal handlers in asyncio
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    open_tap: Callable[[str], Tap] = lambda _: NoTap()  # noqa: E731 (the other one is a method)
    async with contextlib.AsyncExitStack() as stack:
        listener = None if inspect_port is None else stack.enter_context(_bind(inspect_port))

        async def prepare() -> None:
            nonlocal open_tap
            if listener:
                from tunnel_edge.commands import inspecting

                open_tap = await inspecting.start(server, listener, screen, stack)
            gc.freeze()  # exempt the objects of imported modules, which are never garbage, from garbage collections
            gc.set_threshold(20_000, 20, 50)  # collect garbage rarely: each collection visits all recorded requests
            gc.enable()

        passing = Relay(server, lambda host: open_tap(host), screen.note_once)
        await Run(tunnel, passing, sign_ins, fetch, screen, prepare).serve()


def _bind(port: int) -> socket.socket:
    """Return a socket that listens for the inspector. Raises CommandError."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise CommandError(
            f"The inspector cannot listen on port {port} ({error.strerror}): choose another with --inspect-port.",
            FAILED,
        ) from error
