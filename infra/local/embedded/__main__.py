"""`python -m infra.local.embedded`: serve the embedded cloud until SIGTERM or the end of its parent.

Its settings are environment variables: MiniStack's own, which are read on import, and AWS_ACCESS_KEY_ID, the only
access key id that is accepted. With ENDS_WITH_STDIN, the process ends when its standard input is closed. It locks the
folder STATE_DIR. With PERSIST_STATE=1, it loads the state in this folder and saves changes there. Otherwise it writes
its process id there, so that another command can end it.
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
IDLE = 75  # seconds until a connection without requests is closed
LAST = 0.5  # seconds that open connections have to end at shutdown


def main() -> None:
    """Serve with as many open connections as the system allows."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    config = Config()
    config.bind = [BIND]
    config.keep_alive_timeout, config.graceful_timeout = IDLE, LAST
    config.loglevel = os.environ["LOG_LEVEL"]
    store = _load_store(Path(os.environ["STATE_DIR"]))
    asyncio.run(_serve(_build_app(), config, store))
    if store:
        store.save_if_possible()


def _load_store(folder: Path) -> "Store | None":
    """Lock the folder until this process ends. Return the store of its state, or None without persistence.

    If the lock or the store fails, print one sentence and end the process.
    """
    is_persistent = os.environ["PERSIST_STATE"] == "1"
    try:
        if lock.lock_folder(folder) is None:
            raise CommandError(f"Another process uses the state in {folder}: end that process first.")
        if not is_persistent:
            (folder / PROCESS).write_text(str(os.getpid()))
            return None
        from infra.local.embedded.store import Store

        return Store(folder)
    except CommandError as error:
        print(error, file=sys.stderr)
    except OSError as error:
        setting = "LOCAL_DIR" if is_persistent else "DEPLOYED_DIR"
        sentence = (
            f"{error.filename or folder} cannot be used ({error.strerror}): choose another folder with {setting}=…."
        )
        print(sentence, file=sys.stderr)
    sys.exit(UNUSABLE)


def _build_app() -> App:
    """Return the emulator behind `Guard`, which checks the credentials of each request.

    With AUTH=true, Lambda functions that run in the emulator can call it too.
    """
    key_id = os.environ["AWS_ACCESS_KEY_ID"]
    if os.environ.get("AUTH") != "true":
        from ministack.app import app

        return Guard(app, key_id)
    functions_path = f"/{secrets.token_urlsafe(24)}"
    # Lambda functions inherit this variable, and call the emulator at this URL.
    os.environ["AWS_ENDPOINT_URL"] = f"http://{BIND}{functions_path}"
    from ministack.app import app
    from ministack.services import sts

    return Guard(app, key_id, functions_path, sts._sessions.__contains__)


async def _serve(app: App, config: Config, store: "Store | None") -> None:
    ended = asyncio.Event()
    syncing = asyncio.create_task(store.sync_each_second()) if store else None  # noqa: F841, the reference keeps it alive
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if os.environ.get("ENDS_WITH_STDIN"):
        _set_when_closed(loop, ended)
    await serve(app, config, shutdown_trigger=ended.wait)


def _set_when_closed(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    """Set an event when the standard input is closed. The parent never writes to this input."""

    def on_closed() -> None:
        loop.remove_reader(0)
        ended.set()

    loop.add_reader(0, on_closed)


if __name__ == "__main__":
    main()
