"""What was answered is kept: through kill -9 at any moment, on a full disk, and by a journal that was cut."""

import os
import resource
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Event
from typing import Any
from uuid import uuid4

import httpx

from tests.conftest import Served
from tests.refusals import is_clear
from tests.served.running import run
from tests.transports import Client

BOTS, KEYS = "/bot_users", "/api_keys"
Records = dict[str, Any]


def cloud_of(process: subprocess.Popen[bytes]) -> int:
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())


def create(client: Client, acknowledged: list[Records]) -> None:
    """Create one after the other, until the API is gone."""
    with suppress(httpx.TransportError):
        while answer := client.post(BOTS, {"name": uuid4().hex}):
            if answer.status == 201:
                acknowledged.append(answer.json)


def find_lost(api: Served, acknowledged: list[Records]) -> list[Records]:
    """Return the resources that were acknowledged and have been lost or changed."""
    bots = {bot["id"]: bot for bot in api.client().all(BOTS, "bot_users")}
    return [bot for bot in acknowledged if bots.get(bot["id"]) != bot | {"uri": f"{api.base_url}{BOTS}/{bot['id']}"}]


def test_what_was_answered_outlives_kill_9_and_of_a_cut_journal_all_but_what_was_cut(tmp_path: Path) -> None:
    acknowledged: list[Records] = []
    for killed in ("cloud", "API", "both"):
        with run(tmp_path / "local") as (api, process), ThreadPoolExecutor(4) as threads:
            assert find_lost(api, acknowledged) == []
            victims = {"cloud": [cloud_of(process)], "API": [process.pid], "both": [cloud_of(process), process.pid]}
            until = len(acknowledged) + Random(killed).randrange(5, 40)
            creating = [threads.submit(create, api.client(), acknowledged) for _ in range(4)]
            while len(acknowledged) < until:
                Event().wait(0.001)
            for victim in victims[killed]:
                os.kill(victim, signal.SIGKILL)
            for future in creating:
                future.result()

    with run(tmp_path / "local") as (api, process):
        assert find_lost(api, acknowledged) == []
        last = api.client().create(BOTS, {"name": "last"})
        os.kill(cloud_of(process), signal.SIGKILL)
        assert process.wait(timeout=30) == 1
        assert api.log.read_text().splitlines()[-1] == (
            f"The emulated cloud ended unexpectedly: {api.local / 'cloud' / 'cloud.log'} shows why."
        )
    (journal,) = (api.local / "cloud").glob("journal-*")
    os.truncate(journal, journal.stat().st_size - 40)
    with run(tmp_path / "local") as (api, _):
        assert find_lost(api, acknowledged) == []
        assert api.client().get(f"{BOTS}/{last['id']}").status == 404
        assert f"The journal {journal} ended in an incomplete change: " in api.log.read_text()


def limit(cloud: int, size: int) -> None:
    """Have no file of the cloud grow beyond this size, as on a full disk."""
    resource.prlimit(cloud, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_what_a_full_disk_does_not_take_is_refused_whole_and_nothing_is_forgotten(tmp_path: Path) -> None:
    with run(tmp_path / "local") as (api, process):
        client, cloud = api.client(), cloud_of(process)
        journal = api.local / "cloud" / "journal-1"
        bot = client.create(BOTS, {"name": "kept"})
        began = journal.stat().st_size
        client.create(KEYS, {"description": "the same size"})  # with a claim of its token: two items
        size = journal.stat().st_size - began
        before = list(client.all(KEYS, "keys"))
        for room in range(0, size, size // 5):
            limit(cloud, journal.stat().st_size + room)
            assert is_clear(client.post(KEYS, {"description": "the same size"}))
        limit(cloud, journal.stat().st_size)
        assert is_clear(client.delete(f"{BOTS}/{bot['id']}"))
        assert client.get(f"{BOTS}/{bot['id']}").json == bot
        assert list(client.all(KEYS, "keys")) == before
        limit(cloud, resource.RLIM_INFINITY)
        again = client.create(KEYS, {"description": "there is room again"})
        limit(cloud, journal.stat().st_size)  # the stop, too, finds a full disk
    assert journal.exists()
    with run(tmp_path / "local") as (api, _):
        keys = list(api.client().all(KEYS, "keys"))
        assert [key["id"] for key in keys] == [again["id"], *(key["id"] for key in before)]
