"""The commands `te http`, `te tls` and `te tcp`.

The import of asyncssh takes most of their start-up time. Meanwhile, a child process sends the first requests to the
service.
"""

import functools
import gc
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from tunnel_edge.commands import options
from tunnel_edge.commands.options import Command
from tunnel_edge.errors import FAILED, NOT_SIGNED_IN, USAGE, CommandError
from tunnel_edge.tunnels import requested
from tunnel_edge.tunnels.requested import LocalServer, RequestedTunnel

if TYPE_CHECKING:
    from tunnel_edge.identity.session import Session
    from tunnel_edge.tunnels.gateways import Gateway, Service
    from tunnel_edge.tunnels.material import Material, SignIns

_Prepared: TypeAlias = "tuple[Service, Material | None]"

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
    tunnel = _build_tunnel("http", name, labels)
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
        raise CommandError("te tls needs the name of the server's certificate: add --name.", USAGE)
    _serve(_build_tunnel("tls", name, labels), requested.parse_server(server), qr, identity, None)


@click.command(cls=Command)
@click.argument("server")
@click.option("--port", type=click.IntRange(1, 65535), help="The public port. The default is a random port.")
@_LABEL
@_QR
@_IDENTITY
def tcp(server: str, port: int | None, labels: tuple[str, ...], qr: bool, identity: str | None) -> None:
    """Give a local TCP server a public port."""
    if port and labels:
        raise CommandError("A backend tunnel has labels and no port: leave out --port or --label.", USAGE)
    tunnel = RequestedTunnel("tcp", labels=requested.check_labels(labels), port=port or 0)
    _serve(tunnel, requested.parse_server(server), qr, identity, None)


def _build_tunnel(proto: Any, name: str | None, labels: tuple[str, ...]) -> RequestedTunnel:
    if name and labels:
        raise CommandError("A tunnel has either a name or labels: leave out --name or --label.", USAGE)
    return RequestedTunnel(proto, requested.check_name(name) if name else "", requested.check_labels(labels))


def _serve(
    tunnel: RequestedTunnel, server: LocalServer, qr: bool, identity: str | None, inspect_port: int | None
) -> None:
    """Serve a tunnel until Ctrl-C. `inspect_port` is None without an inspector, and 0 for a free port."""
    gc.disable()  # garbage collection would slow down the imports
    open_session = functools.cache(options.chosen().open_session)
    prepared = _begin(open_session, lambda: _prepare(open_session(), tunnel, with_key=not identity))

    from tunnel_edge.tunnels import library

    library.import_asyncssh()
    from tunnel_edge.commands import serving
    from tunnel_edge.tunnels.material import Obtained

    if inspect_port is not None:
        from tunnel_edge.commands import inspecting  # noqa: F401 - now, while the service answers
    screen = serving.Terminal(serving.load_qr() if qr else None, server)
    service, material = prepared()
    sign_ins: SignIns = (
        Obtained(material, _renewal(open_session, tunnel, service)) if material else _read_identity(identity or "")
    )
    fetched = iter([service.gateways])
    fetch = lambda: next(fetched, ()) or _fetch(open_session()).gateways  # noqa: E731 - first those that are known
    serving.serve(tunnel, server, sign_ins, fetch, screen, inspect_port)


def _renewal(
    open_session: "Callable[[], Session]", tunnel: RequestedTunnel, service: "Service"
) -> "Callable[[Material], Material]":
    """Return the function that obtains a new certificate for a key."""

    def renew(material: "Material") -> "Material":
        from tunnel_edge.ssh import keys
        from tunnel_edge.tunnels import sign_in

        return sign_in.obtain(open_session(), tunnel, service, keys.load(material.private_key))

    return renew


def _begin(open_session: "Callable[[], Session]", work: Callable[[], _Prepared]) -> Callable[[], _Prepared]:
    """Call a function in a child process (Linux) or a thread. Return a function that waits for the result."""
    from tunnel_edge.identity import browser
    from tunnel_edge.tunnels import background

    if sys.platform != "linux":
        open_session()  # the session is opened here, so that two threads do not open it at the same time
        return background.start_in_thread(work)

    def work_in_child() -> _Prepared:
        if not open_session().may_fork:
            raise background.NoResult
        browser.forbid()
        return work()

    return functools.partial(_result, background.start_in_child(work_in_child), work)


def _result(wait: Callable[[], _Prepared], work: Callable[[], _Prepared]) -> _Prepared:
    """Return the result of the child process.

    If the child process has no result, or could not sign in without a prompt, call `work` in this process instead.
    """
    from tunnel_edge.tunnels import background

    try:
        return wait()
    except background.NoResult:
        return work()
    except CommandError as error:
        if error.code != NOT_SIGNED_IN:
            raise
        return work()


def _prepare(session: "Session", tunnel: RequestedTunnel, *, with_key: bool) -> _Prepared:
    """Return the content of GET /gateways and, if `with_key`, the key with which the profile signs in at a gateway."""
    from tunnel_edge.tunnels import background

    fetching = background.start_in_thread(lambda: _fetch(session))
    # These imports take long, so they run while the thread waits for the service.
    from tunnel_edge.ssh import keys
    from tunnel_edge.tunnels import sign_in

    key = keys.generate()
    service = fetching()
    _write_known_hosts(service.gateways)
    return service, sign_in.obtain(session, tunnel, service, key) if with_key else None


def _fetch(session: "Session") -> "Service":
    from tunnel_edge.tunnels import gateways

    return gateways.parse_service(session.client.get("/gateways"))


def _read_identity(file: str) -> "SignIns":
    """Return the key of a file, or the keys of the agent. Prompt for a passphrase on a terminal only."""
    from tunnel_edge.tunnels import sign_in

    if file == sign_in.AGENT:
        return sign_in.agent_keys()
    try:
        return sign_in.read_identity(file)
    except sign_in.PassphraseNeeded:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            message = f"{file} has a passphrase: add it to the agent and use --identity agent, or use a terminal."
            raise CommandError(message, NOT_SIGNED_IN) from None
    try:
        return sign_in.read_identity(file, click.prompt(f"Passphrase of {file}", hide_input=True, err=True))
    except sign_in.PassphraseNeeded:
        raise CommandError(f"The passphrase of {file} is wrong: try again.", FAILED) from None


def _write_known_hosts(gateways: "tuple[Gateway, ...]") -> None:
    """Write the gateways' host keys to a known_hosts file, for users of `ssh`."""
    from tunnel_edge.identity import files

    lines = [f"[{gateway.host}]:{gateway.port} {key}\n" for gateway in gateways for key in gateway.host_keys]
    files.write_private(files.state_folder() / "ssh" / "known_hosts", "".join(lines).encode())
