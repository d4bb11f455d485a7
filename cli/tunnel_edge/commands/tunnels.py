"""`te http`, `te tls`, `te tcp`."""

import asyncio
import contextlib
import functools
import gc
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from tunnel_edge import output
from tunnel_edge.api.client import Client
from tunnel_edge.commands import options
from tunnel_edge.commands.options import Command
from tunnel_edge.errors import FAILED, NOT_SIGNED_IN, USAGE, CommandError
from tunnel_edge.identity import files
from tunnel_edge.identity.profiles import Profile
from tunnel_edge.inspector.control import Control, socket_file
from tunnel_edge.inspector.exchanges import Journal
from tunnel_edge.inspector.recording import Recording
from tunnel_edge.inspector.replay import Replay
from tunnel_edge.inspector.server import Inspector
from tunnel_edge.tunnels import connection, relay, requested, sign_in
from tunnel_edge.tunnels.connection import Gateway
from tunnel_edge.tunnels.relay import NoTap, Relay
from tunnel_edge.tunnels.requested import LocalServer, RequestedTunnel
from tunnel_edge.tunnels.run import Run
from tunnel_edge.tunnels.sign_in import SignIns

_NAME = click.option("--name", metavar="NAME", help="Use this name: a label below the service's domain, or a domain.")
_LABEL = click.option("--label", "labels", multiple=True, metavar="K=V", help="Open a backend tunnel with this label.")
_QR = click.option("--qr", is_flag=True, help="Show the address as a QR code, too.")
_IDENTITY = click.option(
    "--identity", metavar="FILE", help="Sign in with this private key, or with the keys of the agent (agent)."
)


@click.command(cls=Command)
@click.argument("server")
@_NAME
@_LABEL
@click.option("--no-inspect", is_flag=True, help="Record no requests.")
@click.option("--inspect-port", type=click.IntRange(1, 65535), help="The inspector's port on 127.0.0.1.")
@_QR
@_IDENTITY
def http(
    server: str,
    name: str | None,
    labels: tuple[str, ...],
    no_inspect: bool,
    inspect_port: int | None,
    qr: bool,
    identity: str | None,
) -> None:
    """Give the local server at PORT, HOST:PORT or URL a public https address."""
    if no_inspect and inspect_port:
        raise CommandError("--inspect-port needs the inspector: leave out --no-inspect.", USAGE)
    tunnel = _requested("http", name, labels)
    _serve(tunnel, requested.parse_server(server), qr, identity, None if no_inspect else inspect_port or 0)


@click.command(cls=Command)
@click.argument("server")
@_NAME
@_LABEL
@_QR
@_IDENTITY
def tls(server: str, name: str | None, labels: tuple[str, ...], qr: bool, identity: str | None) -> None:
    """Pass TLS of a public name through to a local server that has the certificate."""
    if not name and not labels:
        raise CommandError("TLS passes through to a server with a certificate for a name: add --name.", USAGE)
    _serve(_requested("tls", name, labels), requested.parse_server(server), qr, identity, None)


@click.command(cls=Command)
@click.argument("server")
@click.option("--port", type=click.IntRange(1, 65535), help="The public port. Without it the gateway draws one.")
@_LABEL
@_QR
@_IDENTITY
def tcp(server: str, port: int | None, labels: tuple[str, ...], qr: bool, identity: str | None) -> None:
    """Give a local TCP server a public port."""
    if port and labels:
        raise CommandError("A backend tunnel has labels and no port: leave out --port or --label.", USAGE)
    tunnel = RequestedTunnel("tcp", labels=requested.check_labels(labels), port=port or 0)
    _serve(tunnel, requested.parse_server(server), qr, identity, None)


@dataclass
class Terminal:
    """Shows a run to the person at the terminal. The address is the only line of standard output."""

    qr: bool
    on_address: Callable[[str], None]
    server: LocalServer
    _last: str = ""

    def show_address(self, url: str) -> None:
        self.on_address(url)
        print(output.plain(url).replace("\n", ""), flush=True)
        self.note(f"Requests go to {self.server}. Ctrl-C ends the tunnel.")
        if self.qr:
            _show_qr(url)

    def show_request(self, event: Mapping[str, Any]) -> None:
        """Show a request as the terminal of `ssh -R` does, if somebody is there to read it."""
        if sys.stderr.isatty():
            answer = "no answer" if event.get("status") is None else f"{event.get('status')}  {event.get('ms')} ms"
            self.note(f"{event.get('client')}  {event.get('method')} {event.get('path')}  {answer}")

    def note(self, text: str) -> None:
        output.note(text.replace("\r", "").replace("\n", " "))

    def note_once(self, text: str) -> None:
        """Show a sentence, unless it is the same as the last one."""
        if text != self._last:
            self._last = text
            self.note(text)


def _requested(proto: Any, name: str | None, labels: tuple[str, ...]) -> RequestedTunnel:
    if name and labels:
        raise CommandError("A tunnel has either a name or labels: leave out --name or --label.", USAGE)
    return RequestedTunnel(proto, name or "", requested.check_labels(labels))


def _serve(
    tunnel: RequestedTunnel, server: LocalServer, qr: bool, identity: str | None, inspect_port: int | None
) -> None:
    """Serve a tunnel until Ctrl-C. `inspect_port` is None without an inspector, and 0 for a free port."""
    if qr:
        _import_segno()
    session = options.chosen().open_session()
    answer = session.client.get("/gateways")
    gateways = connection.parse_gateways(answer)
    _write_known_hosts(gateways)
    sign_ins = _choose_sign_ins(session.client, session.profile, tunnel, answer, identity)
    fetched = iter([gateways])

    def fetch() -> tuple[Gateway, ...]:
        """Return the gateways, at first those that are known already."""
        return next(fetched, ()) or connection.parse_gateways(session.client.get("/gateways"))

    asyncio.run(_run(tunnel, server, sign_ins, fetch, qr, inspect_port))


def _choose_sign_ins(
    client: Client, profile: Profile, tunnel: RequestedTunnel, answer: Mapping[str, Any], identity: str | None
) -> SignIns:
    if identity == sign_in.AGENT:
        return sign_in.agent_keys()
    if identity:
        return _read_identity(identity)
    domain = str(answer.get("tunnel_domain") or "")
    ports = requested.parse_ports(str(answer.get("tcp_ports") or ""))
    return sign_in.create(client, profile, tunnel, domain, ports)


def _read_identity(file: str) -> SignIns:
    """Return the key of a file. The passphrase is asked for on a terminal only."""
    import asyncssh

    try:
        return sign_in.read_identity(file)
    except asyncssh.KeyEncryptionError:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            message = f"{file} has a passphrase: add it to the agent and use --identity agent, or use a terminal."
            raise CommandError(message, NOT_SIGNED_IN) from None
    try:
        return sign_in.read_identity(file, click.prompt(f"Passphrase of {file}", hide_input=True, err=True))
    except asyncssh.KeyEncryptionError:
        raise CommandError(f"The passphrase of {file} is wrong.", FAILED) from None


async def _run(
    tunnel: RequestedTunnel,
    server: LocalServer,
    sign_ins: SignIns,
    fetch: Callable[[], tuple[Gateway, ...]],
    qr: bool,
    inspect_port: int | None,
) -> None:
    """Serve until cancelled by Ctrl-C or SIGTERM."""
    gc.freeze()  # what is imported now stays
    gc.set_threshold(20_000, 20, 50)  # recorded requests would be searched for garbage again and again
    if task := asyncio.current_task():
        with contextlib.suppress(NotImplementedError):  # on Windows
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with contextlib.AsyncExitStack() as stack:
        screen = Terminal(qr, lambda url: None, server)
        open_tap: Callable[[str], relay.Tap] = lambda _: NoTap()  # noqa: E731 (the other one is a method)
        if inspect_port is not None:
            recording = Recording(Journal())
            screen.on_address = await _inspect(recording, server, inspect_port, screen, stack)
            open_tap = recording.open
        passing = Relay(server, open_tap, screen.note_once)
        await Run(tunnel, passing, sign_ins, fetch, screen).serve()


async def _inspect(
    recording: Recording, server: LocalServer, port: int, screen: Terminal, stack: contextlib.AsyncExitStack
) -> Callable[[str], None]:
    """Start the inspector and the socket of `te requests`. Return the function that sets the tunnel's address."""
    replay = Replay(recording, server.host, server.port, relay.create_context(server))
    inspector = Inspector(recording.journal, replay, str(server), screen.note)
    try:
        link = await inspector.listen(port)
    except OSError as error:
        raise CommandError(f"The inspector cannot listen on port {port}: {error.strerror}", FAILED) from error
    stack.callback(inspector.close)
    control, file = Control(recording.journal, replay), socket_file(os.getpid())
    try:
        stack.callback((await control.listen(file)).close)
        stack.callback(functools.partial(file.unlink, missing_ok=True))
    except (OSError, NotImplementedError, AttributeError) as error:
        screen.note(f"te requests is not available: {error}")
    screen.note(f"Inspector: {link}")

    def set_address(url: str) -> None:
        inspector.url = control.url = url

    return set_address


def _write_known_hosts(gateways: tuple[Gateway, ...]) -> None:
    """Write the host keys in the form of OpenSSH, for commands that use `ssh`."""
    lines = [f"[{it.host}]:{it.port} {key}\n" for it in gateways for key in it.host_keys]
    files.write_private(files.state_folder() / "ssh" / "known_hosts", "".join(lines).encode())


def _import_segno() -> Any:
    try:
        import segno
    except ImportError:
        raise CommandError("--qr needs the package segno: install tunnel-edge-cli[qr].", USAGE) from None
    return segno


def _show_qr(url: str) -> None:
    _import_segno().make(url).terminal(out=sys.stderr, compact=True)
