"""Starts the inspector of `te http`, and the socket by which `te requests` controls this inspector."""

import contextlib
import functools
import os
import socket
from collections.abc import Callable

from tunnel_edge.commands.serving import Terminal
from tunnel_edge.inspector.control import Control, socket_file
from tunnel_edge.inspector.exchanges import Journal
from tunnel_edge.inspector.recording import Recording
from tunnel_edge.inspector.replay import Replay
from tunnel_edge.inspector.server import Inspector
from tunnel_edge.tunnels import relay
from tunnel_edge.tunnels.relay import Tap
from tunnel_edge.tunnels.requested import LocalServer


async def start(
    server: LocalServer, listener: socket.socket, screen: Terminal, stack: contextlib.AsyncExitStack
) -> Callable[[str], Tap]:
    """Start an inspector and show its link. Return the function that begins to record a new connection."""
    recording = Recording(Journal())
    replay = Replay(recording, server.host, server.port, relay.create_context(server))
    inspector = Inspector(recording.journal, replay, str(server), lambda: screen.url, screen.note)
    link = await inspector.listen(listener)
    stack.callback(inspector.close)
    control, file = Control(recording.journal, replay, lambda: screen.url), socket_file(os.getpid())
    try:
        stack.callback((await control.listen(file)).close)
        stack.callback(functools.partial(file.unlink, missing_ok=True))
    except (OSError, NotImplementedError, AttributeError) as error:
        screen.note(
            f"The command 'te requests' will not find this te http, because its socket cannot be opened: {error}"
        )
    screen.note(f"Inspector: {link}")
    return recording.open
