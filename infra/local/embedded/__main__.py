"""`python -m infra.local.embedded`: serve the embedded cloud until SIGTERM, or until its parent is gone.

Its settings are environment variables: MiniStack's own, which it reads when it is imported, and AWS_ACCESS_KEY_ID, the
only access key id that is let in. With ENDS_WITH_STDIN it ends when nobody holds the other end of its standard input.
"""

import asyncio
import os
import resource
import secrets
import signal

from hypercorn.asyncio import serve
from hypercorn.config import Config

from infra.local.embedded.guard import App, Guard

BIND = f"{os.environ['BIND_HOST']}:{os.environ['GATEWAY_PORT']}"
IDLE = 75  # seconds that a connection without requests is kept


def main() -> None:
    """Serve, with as many open connections as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    config = Config()
    config.bind = [BIND]
    config.keep_alive_timeout = IDLE
    config.loglevel = os.environ["LOG_LEVEL"]
    asyncio.run(_serve(_guarded(), config))


def _guarded() -> App:
    """The emulator behind its guard; with policies, also for the functions that run in it."""
    key_id = os.environ["AWS_ACCESS_KEY_ID"]
    if os.environ.get("AUTH") != "true":
        from ministack.app import app

        return Guard(app, key_id)
    functions_path = f"/{secrets.token_urlsafe(24)}"
    os.environ["AWS_ENDPOINT_URL"] = f"http://{BIND}{functions_path}"  # which the functions inherit
    from ministack.app import app
    from ministack.services import sts

    return Guard(app, key_id, functions_path, sts._sessions.__contains__)


async def _serve(app: App, config: Config) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if os.environ.get("ENDS_WITH_STDIN"):
        loop.add_reader(0, lambda: (loop.remove_reader(0), ended.set()))  # nothing is ever written to it
    await serve(app, config, shutdown_trigger=ended.wait)


if __name__ == "__main__":
    main()
