"""`make edge`: the whole edge, until Ctrl-C. `python -m edge gateway` and `python -m edge control` are two parts of it.

A gateway may also run alone, on another host.
"""

import asyncio
import contextlib
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeAlias

from edge.process import files, supervisor
from edge.process import settings as environment
from edge.process.settings import SettingError, Settings

_PATIENCE = 5.0  # seconds for which a part waits for one to end whose parent was killed

Work: TypeAlias = "Callable[[Settings], Coroutine[Any, Any, None]]"


def main() -> None:
    """Run what the command line names. Where it fails, print one sentence and exit with status 1."""
    os.umask(0o077)
    _allow_many_files()
    try:
        settings = environment.from_environment()
        settings.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        work = _chosen(sys.argv[1:])
        _lock(settings, *sys.argv[1:])
        asyncio.run(_until_ended(work(settings)))
    except SettingError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"The edge cannot run ({error.filename or error}: {error.strerror}).")


def _lock(settings: Settings, part: str = "") -> None:
    """Raise SettingError where the same runs in the same folder: it would lose its sockets to this one."""
    until = time.monotonic() + (_PATIENCE if part else 0)
    while not files.lock(settings.directory / f"{part or 'edge'}.lock"):
        if time.monotonic() > until:
            what = part or "edge"
            raise SettingError(f"Another {what} uses {settings.directory}: end it, or choose another with EDGE_DIR=….")
        time.sleep(0.1)


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
            return supervisor.run
        case ["gateway"]:
            return _gateway
        case ["control"]:
            return _control
    raise SettingError("Say python -m edge, python -m edge gateway or python -m edge control.")


async def _gateway(settings: Settings) -> None:
    from edge.ssh import gateway
    from edge.store import table

    store = table.connect(settings)
    with _store_told():
        await gateway.SshGateway(settings, store, await asyncio.to_thread(store.link_authority)).serve()


async def _control(settings: Settings) -> None:
    from edge.control.control import Control
    from edge.control.looks import Looks
    from edge.process import memory, tasks
    from edge.proofs import servers
    from edge.proofs.resolver import Resolver
    from edge.store import table

    memory.collect_seldom()
    store = table.connect(settings)
    looks = Looks(store, Resolver(servers.source(settings.dns_servers)).look)
    with _store_told():
        control = Control(settings, store, await asyncio.to_thread(store.link_authority))
        await tasks.run_all(control.serve(), looks.serve())


@contextlib.contextmanager
def _store_told() -> Iterator[None]:
    """Raise SettingError where the store fails while a process starts; later it waits for the store."""
    from edge.store.records import Unavailable

    try:
        yield
    except Unavailable as error:
        raise SettingError(
            f"The store cannot be used ({error}): see which table and key the environment names."
        ) from None


if __name__ == "__main__":
    main()
