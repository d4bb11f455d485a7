"""Runs the whole edge (`make edge`), or one part of it.

The parts are `python -m edge` with gateway, control, envoy, sign-in or issuer.

A gateway or the issuer can also run on a separate host. The first SIGTERM drains a gateway or Envoy. A second SIGTERM,
or another signal, ends the part at once.
"""

import asyncio
import contextlib
import os
import resource
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from edge.process import files
from edge.process import settings as environment
from edge.process.children import Program
from edge.process.progress import Progress
from edge.process.settings import SettingError, Settings
from edge.ssh.loops import CheckingLoop

if TYPE_CHECKING:
    from edge.link.authority import Authority
    from edge.store.table import Store

_LOCK_TIMEOUT = 5.0  # seconds to wait for the lock: the previous process of the part may still be ending

_GATEWAY, _ENVOY = "gateway", "envoy"  # the parts that a SIGTERM drains. A host can run two instances of each

# A function that runs a part of the edge, and starts a drain when the event is set.
Run: TypeAlias = "Callable[[Settings, asyncio.Event], Coroutine[Any, Any, None]]"
RunWithStore: TypeAlias = "Callable[[Store, Authority], Awaitable[None]]"


def main() -> None:
    """Run the part that the command line names. On failure, print one sentence and exit with status 1."""
    part = " ".join(sys.argv[1:])
    if part != _ENVOY:  # Envoy keeps the umask of its systemd unit, which decides who can read the access log
        os.umask(0o077)
    _allow_many_files()
    try:
        settings, run = environment.from_environment(), _choose(part)
        settings.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _lock(settings, part)
        with asyncio.Runner(loop_factory=CheckingLoop) as runner:
            runner.run(run_until_signal(run, settings, drains=part in (_GATEWAY, _ENVOY)))
    except SettingError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"The edge cannot run ({error.filename or error}: {error.strerror}).")


def _lock(settings: Settings, part: str) -> None:
    """Lock the edge's folder for a part, until this process ends.

    Raises SettingError if another process has the lock, because two processes would replace each other's sockets.
    """
    name = f"{part or 'edge'}.lock"
    file = settings.own_file(name) if part in (_GATEWAY, _ENVOY) else settings.directory / name
    deadline = time.monotonic() + (_LOCK_TIMEOUT if part else 0)
    while not files.lock(file):
        if time.monotonic() > deadline:
            raise SettingError(
                f"Another {part or 'edge'} uses the folder {settings.directory}: end that process, or choose another "
                "folder with EDGE_DIR=…."
            )
        time.sleep(0.1)


def _allow_many_files() -> None:
    """Raise the limit of open files for this process and its children: shells often set 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def run_until_signal(run: Run, settings: Settings, *, drains: bool) -> None:
    """Run until a signal ends the process, and clean up. If `drains`, the first SIGTERM only begins a drain."""
    draining = asyncio.Event()
    task = asyncio.create_task(run(settings, draining))

    def on_sigterm() -> None:
        if drains and not draining.is_set():
            draining.set()
        else:
            task.cancel()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, on_sigterm)
    for number in (signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _choose(part: str) -> Run:
    parts = {
        "": _edge,
        _GATEWAY: _gateway,
        "control": _control,
        _ENVOY: _envoy,
        "sign-in": _sign_in,
        "issuer": _issuer,
    }
    if part not in parts:
        raise SettingError(
            "Unknown arguments: use python -m edge, or name gateway, control, envoy, sign-in or issuer after it."
        )
    return parts[part]


def _list_issuer() -> Iterator[Program]:
    """Yield the program of the issuer if ACME_DIRECTORY is set.

    If a setting of the issuer is wrong, print why and yield nothing.
    """
    from edge.issuer import issuer_settings

    if issuer_settings.is_configured():
        try:
            issuer_settings.from_environment()
        except SettingError as error:
            print(f"The issuer of certificates does not run. {error}", file=sys.stderr, flush=True)
        else:
            yield Program("issuer", [sys.executable, "-m", "edge", "issuer"])


async def _edge(settings: Settings, _: asyncio.Event) -> None:
    from edge.process import supervisor

    await supervisor.run(settings, list(_list_issuer()))


async def _envoy(settings: Settings, draining: asyncio.Event) -> None:
    from edge.process.envoy_process import envoy_parent

    await envoy_parent.run(settings, draining)


async def _gateway(settings: Settings, draining: asyncio.Event) -> None:
    from chalicelib.storage.client import aws
    from edge.ssh.gateway import SshGateway

    aws.call_directly("dynamodb", "kms")
    await _run_with_store("gateway", settings, lambda *store: SshGateway(settings, *store).serve(draining))


async def _control(settings: Settings, _: asyncio.Event) -> None:
    from chalicelib.storage.client import aws
    from edge.control.control import Control
    from edge.control.proof_checks import ProofChecks
    from edge.process import memory, tasks
    from edge.proofs import servers
    from edge.proofs.resolver import Resolver

    async def run(_: "Store", link_authority: "Authority") -> None:
        looks = ProofChecks(Resolver(servers.build_source(settings.dns_servers)).check_proof)
        await tasks.run_all(Control(settings, link_authority).serve(), looks.serve())

    memory.collect_seldom()
    aws.call_directly("dynamodb", "kms")
    await _run_with_store("control", settings, run)


async def _sign_in(settings: Settings, _: asyncio.Event) -> None:
    from edge.sign_in import authorization

    Progress(settings.directory, "sign-in").report("opening its socket")
    await authorization.serve(settings)


async def _issuer(settings: Settings, _: asyncio.Event) -> None:
    from edge.issuer import issuing

    await issuing.serve(settings)


async def _run_with_store(part: str, settings: Settings, run: RunWithStore) -> None:
    """Connect to the store, read the CA for connections between hosts, and run a part of the edge.

    While the part starts, calls that the store throttles are repeated; any other failure of the store raises
    SettingError. A part that already serves does not end if the store fails.
    """
    from edge.process import tasks
    from edge.store import link_authority, table, threads
    from edge.store.records import Throttled, Unavailable

    progress = Progress(settings.directory, part)

    async def start() -> None:
        progress.report("connecting to the store")
        with progress.report_waiting("the store throttles calls", Throttled):
            store = await threads.call(table.connect, settings)
            progress.report("reading the certificate authority of the edge's link")
            await run(store, await threads.call(link_authority.read_or_create))

    try:
        await tasks.retry(start, Throttled)
    except Unavailable as error:
        raise SettingError(f"The store cannot be used ({error}): check TABLE_NAME and KEY_ID.") from None


if __name__ == "__main__":
    main()
