"""A bot with many keys is switched off and on at once, and switched off while the API is killed."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Event

import httpx
import pytest

from tests import conformity
from tests.conftest import Served
from tests.served.running import run
from tests.transports import Client

BOTS, KEYS, LIST = "/bot_users", "/api_keys", "/backends/weighted"
MANY = 101  # keys: of more than one transaction


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def bot_with_keys(client: Client, count: int) -> tuple[str, list[Client]]:
    """Return the address of a new bot, and as many clients with a key of it each."""
    id = client.create(BOTS, {"name": f"bot {count}"})["id"]
    client = replace(client, check=conformity.of_another_app)  # which takes longer than the answers
    keys = [client.create(KEYS, {"owner_id": id})["token"] for _ in range(count)]
    return f"{BOTS}/{id}", [client.with_token(key) for key in keys]


def statuses(keys: list[Client], threads: ThreadPoolExecutor) -> set[int]:
    return set(threads.map(lambda key: key.get(LIST).status, keys))


def switch_off(api: Served, bot: str) -> None:
    with suppress(httpx.TransportError):
        api.client().patch(bot, {"active": False})


def test_a_bot_that_is_switched_at_once_is_shown_as_its_keys_are(served: Served, threads: ThreadPoolExecutor) -> None:
    client = served.newcomer().client()
    bot, keys = bot_with_keys(client, 3)

    def switch(active: bool) -> int:
        return client.patch(bot, {"active": active}).status

    for _ in range(5):
        assert [*threads.map(switch, (False, True))] == [200, 200]
        assert statuses(keys, threads) == {200 if client.get(bot).json["active"] else 401}


def test_a_switch_that_is_killed_is_seen_and_can_be_repeated(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    with run(tmp_path / "local") as (api, process):
        bot, keys = bot_with_keys(api.client(), MANY)
        tokens = [key.token for key in keys]
        switching = threads.submit(switch_off, api, bot)
        Event().wait(Random("moment").uniform(0.02, 0.2))
        os.kill(process.pid, signal.SIGKILL)
        switching.result()
    with run(tmp_path / "local") as (api, _):
        client = replace(api.client(), check=conformity.of_another_app)
        keys = [client.with_token(token) for token in tokens]
        if not client.get(bot).json["active"]:
            assert statuses(keys, threads) == {401}
        assert client.patch(bot, {"active": False}).json["active"] is False
        assert statuses(keys, threads) == {401}
