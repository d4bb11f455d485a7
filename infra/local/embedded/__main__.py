"""`python -m infra.local.embedded`: serve the embedded cloud until SIGTERM, or until its parent is gone.

Its settings are environment variables: MiniStack's own, which it reads when it is imported, and AWS_ACCESS_KEY_ID, the
only access key id that is let in. With ENDS_WITH_STDIN it ends when nobody holds the other end of its standard input.
It locks STATE_DIR. With PERSIST_STATE=1 it goes on with what that keeps, and keeps there what changes; else it writes
its process id there, for whoever is to end it.
"""

import asyncio
import os
import resource
import secrets
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hypercorn.asyncio import serve
from hypercorn.config import Config

from infra import CommandError
from infra.local import lock
from infra.local.embedded import PROCESS, UNUSABLE
from infra.local.embedded.guard import App, Guard

if TYPE_CHECKING:
    from infra.local.embedded.store import Store

BIND = f"{os.environ['BIND_HOST']}:{os.environ['GATEWAY_PORT']}"
IDLE = 75  # seconds that a connection without requests is kept
LAST = 0.5  # seconds that one is kept when all ends


def main() -> None:
    """Serve, with as many open connections as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    config = Config()
    config.bind = [BIND]
    config.keep_alive_timeout, config.graceful_timeout = IDLE, LAST
    config.loglevel = os.environ["LOG_LEVEL"]
    store = _taken_up(Path(os.environ["STATE_DIR"]))
    asyncio.run(_serve(_guarded(), config, store))
    if store:
        store.save_if_possible()


def _taken_up(folder: Path) -> "Store | None":
    """Lock the folder until this process ends, and return the store of what it keeps, None where it keeps nothing.

    Where that cannot be done, print one sentence and end the process.
    """
    keeps = os.environ["PERSIST_STATE"] == "1"
    try:
        if lock.lock_folder(folder) is None:
            raise CommandError(f"Another process has {folder} open: end that first.")
        if not keeps:
            (folder / PROCESS).write_text(str(os.getpid()))
            return None
        from infra.local.embedded.store import Store

        return Store(folder)
    except CommandError as error:
        print(error, file=sys.stderr)
    except OSError as error:
        setting = "LOCAL_DIR" if keeps else "DEPLOYED_DIR"
        told = f"{error.filename or folder} cannot be used ({error.strerror}): choose another place with {setting}=…."
        print(told, file=sys.stderr)
    sys.exit(UNUSABLE)


def _guarded() -> App:
    """Return the emulator behind its guard; with policies, the functions that run in it can reach it too."""
    key_id = os.environ["AWS_ACCESS_KEY_ID"]
    if os.environ.get("AUTH") != "true":
        from ministack.app import app

        return Guard(app, key_id)
    functions_path = f"/{secrets.token_urlsafe(24)}"
    os.environ["AWS_ENDPOINT_URL"] = f"http://{BIND}{functions_path}"  # which the functions inherit
    from ministack.app import app
    from ministack.services import sts

    return Guard(app, key_id, functions_path, sts._sessions.__contains__)


async def _serve(app: App, config: Config, store: "Store | None") -> None:
    ended = asyncio.Event()
    syncing = asyncio.create_task(store.sync_each_second()) if store else None  # noqa: F841, which keeps it alive
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if os.environ.get("ENDS_WITH_STDIN"):
        _when_closed(loop, ended)
    await serve(app, config, shutdown_trigger=ended.wait)


def _when_closed(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    """Set the event when the other end of the standard input is closed; nothing is ever written to it."""

    def closed() -> None:
        loop.remove_reader(0)
        ended.set()

    loop.add_reader(0, closed)


if __name__ == "__main__":
    main()
