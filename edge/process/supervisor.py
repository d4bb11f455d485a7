"""Runs the processes of the edge (`make edge`) until Ctrl-C, and restarts each when it dies.

SIGUSR1 replaces the gateway, and SIGUSR2 replaces Envoy: a second process starts before the first one drains. SIGHUP
makes Envoy reopen its access log. If `make edge` runs in a terminal, SIGHUP ends all processes instead.
"""

import asyncio
import os
import shlex
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace

from edge.process import host_key, starting
from edge.process.children import Child, Program
from edge.process.envoy_process import envoy_guard
from edge.process.host_key import HostKey
from edge.process.progress import ENVOY, Heartbeat, Progress
from edge.process.settings import STATS_SOCKET, SettingError, Settings
from edge.process.starting import Readiness, ReadyAddress

_PYTHON = (sys.executable, "-m", "edge")
_CONTROL, _GATEWAY, _SIGN_IN, _ENVOY = "control", "gateway", "sign-in", ENVOY


async def run(settings: Settings, programs: Sequence[Program] = ()) -> None:
    """Run the processes of the edge and `programs`, until cancelled.

    Raises SettingError if a process of the edge does not start.
    """
    _check_ports(settings)
    print("Starting the edge …", flush=True)
    parts = {name: _Part(name, settings) for name in choose_parts(settings)}
    children = [Child(program) for program in programs]
    try:
        for part in parts.values():
            await part.start()
        for child in children:
            await child.start()
        _handle_signals(parts[_GATEWAY], parts[_ENVOY])
        print(_build_welcome(settings, host_key.read(settings)), flush=True)
        heartbeat = Heartbeat(Progress(settings.directory, _CONTROL))
        await envoy_guard.guard(heartbeat, settings.list_files(STATS_SOCKET), parts[_ENVOY].restart)
    finally:
        await asyncio.gather(*(part.end() for part in parts.values()), *(child.end() for child in children))


def choose_parts(settings: Settings) -> Sequence[str]:
    """Return the names of the processes to run, in the order of their start."""
    # if SIGN_IN_HOSTS is set, Envoy uses the sign-in services of other hosts, so none runs here
    sign_in = () if settings.sign_in_hosts else (_SIGN_IN,)
    return (_CONTROL, _GATEWAY, *sign_in, _ENVOY)


def _handle_signals(gateway: "_Part", envoy: "_Part") -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, gateway.replace)
    loop.add_signal_handler(signal.SIGUSR2, envoy.replace)
    if not sys.stdin.isatty():
        loop.add_signal_handler(signal.SIGHUP, envoy.reopen_logs)


class _Part:
    """A part of the edge: control, gateway, sign-in service or Envoy.

    A part has a process that serves. After a replacement, it also has the former process, which drains.
    """

    def __init__(self, name: str, settings: Settings) -> None:
        self._name, self._settings = name, settings
        self._serving: Child | None = None
        self._draining: Child | None = None
        self._replacing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process and wait until it is ready. Raises SettingError if it does not start."""
        self._serving = await self._start(self._settings)

    def replace(self) -> None:
        """Start a task that starts a second process, and then drains the first.

        The task first waits until an earlier replacement has ended.
        """
        self._replacing = asyncio.create_task(self._replace(self._replacing))

    def restart(self) -> None:
        """End the process that serves. The process is then started again."""
        if self._serving:
            self._serving.restart()

    def reopen_logs(self) -> None:
        """Make Envoy reopen its access log after a rotation."""
        for child in (self._serving, self._draining):
            if child and child.pid:
                os.kill(child.pid, signal.SIGUSR1)

    async def end(self) -> None:
        """End all processes of this part, without a drain."""
        if self._replacing:
            self._replacing.cancel()
        await asyncio.gather(*(child.end() for child in (self._serving, self._draining) if child))

    async def _replace(self, earlier: "asyncio.Task[None] | None") -> None:
        if earlier:
            await earlier
        settings = replace(self._settings, instance="a" if self._settings.instance == "b" else "b")
        try:
            child = await self._start(settings)
        except SettingError as error:
            print(error, file=sys.stderr)
            return
        self._draining, self._serving, self._settings = self._serving, child, settings
        print(f"A new {self._name} serves, and the former one drains.", flush=True)
        if self._draining:
            await self._draining.drain()
            self._draining = None
        print(f"The former {self._name} has ended.", flush=True)

    async def _start(self, settings: Settings) -> Child:
        program, address = _build_program(self._name, settings)
        progress = Progress(settings.directory, self._name)
        progress.clear()
        child = Child(program)
        try:
            await child.start()
            await starting.wait_until_ready(child, address, progress)
        except BaseException:
            await child.end()
            raise
        return child


def _build_program(name: str, settings: Settings) -> tuple[Program, ReadyAddress]:
    """Return the program of a part, and the address at which the program reports that it is ready."""
    command = [*_PYTHON, name.lower()]
    if name == _CONTROL:
        return Program(name, command), settings.discovery_socket
    if name == _SIGN_IN:
        return Program(name, command), settings.sign_in_socket
    instance = {"EDGE_INSTANCE": settings.instance}
    if name == _GATEWAY:
        program = Program(name, command, environment={**os.environ, **instance}, stop=signal.SIGHUP)
        return program, Readiness(settings.gateway_sockets[settings.instance], "/readyz")
    environment = {"EDGE_DIR": str(settings.directory), "ENVOY": settings.envoy, **instance}
    log = settings.directory / "envoy.log"
    program = Program(name, command, log, environment=environment, stop=signal.SIGHUP)
    return program, Readiness(settings.own_file(STATS_SOCKET), "/ready")


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
