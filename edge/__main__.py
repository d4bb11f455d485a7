"""Runs the whole edge (`make edge`), or one part: `python -m edge gateway`, `control` or `sign-in`.

A gateway or the sign-in service can also run on a separate host.
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

from edge.control.proof_checks import ProofChecks
from edge.process import files, supervisor
from edge.process import settings as environment
from edge.process.progress import Progress
from edge.process.settings import SettingError, Settings

_LOCK_TIMEOUT = 5.0  # seconds to wait for an old process that has lost its parent

Run: TypeAlias = "Callable[[Settings], Coroutine[Any, Any, None]]"


def main() -> None:
    """Run the part that the command line names. On failure, print one sentence and exit with status 1."""
    os.umask(0o077)
    _allow_many_files()
    try:
        settings = environment.from_environment()
        settings.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        run = _choose(sys.argv[1:])
        _lock(settings, *sys.argv[1:])
        asyncio.run(_run_until_signal(run(settings)))
    except SettingError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"The edge cannot run ({error.filename or error}: {error.strerror}).")


def _lock(settings: Settings, part: str = "") -> None:
    """Lock the folder for a part. Raise SettingError if another process has the lock: its sockets would be replaced."""
    deadline = time.monotonic() + (_LOCK_TIMEOUT if part else 0)
    while not files.lock(settings.directory / f"{part or 'edge'}.lock"):
        if time.monotonic() > deadline:
            raise SettingError(
                f"Another {part or 'edge'} uses {settings.directory}: end it, or choose another with EDGE_DIR=…."
            )
        time.sleep(0.1)


def _allow_many_files() -> None:
    """Raise the limit of open files for this process and its children: shells often set 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _run_until_signal(work: Coroutine[Any, Any, None]) -> None:
    """Run until a signal ends the process, and clean up."""
    task = asyncio.create_task(work)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _choose(arguments: list[str]) -> Run:
    match arguments:
        case []:
            return supervisor.run
        case ["gateway"]:
            return _gateway
        case ["control"]:
            return _control
        case ["sign-in"]:
            return _sign_in
    raise SettingError("Unknown arguments: use python -m edge, or name gateway, control or sign-in after it.")


async def _gateway(settings: Settings) -> None:
    from edge.ssh import gateway
    from edge.store import table

    progress = Progress(settings.directory, "gateway")
    progress.report("connecting to the store")
    store = table.connect(settings)
    progress.report("reading the link's authority")
    with _require_store():
        await gateway.SshGateway(settings, store, await asyncio.to_thread(store.link_authority)).serve()


async def _control(settings: Settings) -> None:
    from chalicelib.storage.client import aws
    from edge.control.control import Control
    from edge.process import memory, tasks
    from edge.proofs import servers
    from edge.proofs.resolver import Resolver
    from edge.store import table

    memory.collect_seldom()
    aws.read_directly()
    progress = Progress(settings.directory, "control")
    progress.report("connecting to the store")
    store = table.connect(settings)
    progress.report("reading the link's authority")
    looks = ProofChecks(store, Resolver(servers.source(settings.dns_servers)).look)
    with _require_store():
        control = Control(settings, store, await asyncio.to_thread(store.link_authority))
        await tasks.run_all(control.serve(), looks.serve())


async def _sign_in(settings: Settings) -> None:
    from edge.sign_in import authorization

    Progress(settings.directory, "sign-in").report("opening its socket")
    await authorization.serve(settings)


@contextlib.contextmanager
def _require_store() -> Iterator[None]:
    """Raise SettingError if the store fails while the process starts. Later the process waits for the store."""
    from edge.store.records import Unavailable

    try:
        yield
    except Unavailable as error:
        raise SettingError(
            f"The store cannot be used ({error}): check the table and the key that the environment names."
        ) from None


if __name__ == "__main__":
    main()
