"""What was answered is kept: through kill -9 at any moment, on a full disk, and by a journal that was cut."""

import json
import os
import resource
import signal
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from threading import Event
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.conftest import Served, processes_with, serve
from tests.served.test_faults import is_clear
from tests.transports import Client

BOTS, KEYS = "/bot_users", "/api_keys"
Records = dict[str, Any]
BEFORE_THE_INDEX: Records = {"GlobalSecondaryIndexes": [], "_template_body": ""}


def cloud_of(process: subprocess.Popen[bytes]) -> int:
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())


@contextmanager
def run(local: Path) -> Iterator[tuple[Served, subprocess.Popen[bytes]]]:
    """The API on what the folder keeps; however it ends, its cloud has ended with it."""
    process, api = serve(local)
    try:
        yield api, process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        process.wait(timeout=30)
        while processes_with(f"LOCAL_DIR={local}"):
            Event().wait(0.05)


def create(client: Client, acknowledged: list[Records]) -> None:
    """Create one after the other, until the API is gone."""
    with suppress(httpx.TransportError):
        while answer := client.post(BOTS, {"name": uuid4().hex}):
            if answer.status == 201:
                acknowledged.append(answer.json)


@pytest.mark.parametrize("killed", ["cloud", "API", "both"])
def test_what_was_answered_outlives_kill_9(tmp_path: Path, killed: str) -> None:
    acknowledged: list[Records] = []
    for moment in range(3):
        with run(tmp_path / "local") as (api, process), ThreadPoolExecutor(4) as threads:
            there = {bot["id"]: bot for bot in api.client().all(BOTS, "bot_users")}
            assert [bot for bot in acknowledged if there.get(bot["id"]) != bot | {"uri": there[bot["id"]]["uri"]}] == []
            victims = {"cloud": [cloud_of(process)], "API": [process.pid], "both": [cloud_of(process), process.pid]}
            until = len(acknowledged) + Random(f"{killed}{moment}").randrange(2, 20)
            creating = [threads.submit(create, api.client(), acknowledged) for _ in range(4)]
            while len(acknowledged) < until:
                Event().wait(0.001)
            for victim in victims[killed]:
                os.kill(victim, signal.SIGKILL)
            for each in creating:
                each.result()


def limit(cloud: int, size: int) -> None:
    """Have no file of the cloud grow beyond this size, as on a full disk."""
    resource.prlimit(cloud, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_what_a_full_disk_does_not_take_is_refused_whole_and_nothing_is_forgotten(tmp_path: Path) -> None:
    with run(tmp_path / "local") as (api, process):
        client, cloud = api.client(), cloud_of(process)
        journal = api.local / "cloud" / "journal-1"
        kept = client.create(BOTS, {"name": "kept"})
        began = journal.stat().st_size
        client.create(KEYS, {"description": "the same size"})  # with a claim of its token: two items
        size = journal.stat().st_size - began
        before = list(client.all(KEYS, "keys"))
        for room in range(0, size, 97):
            limit(cloud, journal.stat().st_size + room)
            assert is_clear(client.post(KEYS, {"description": "the same size"}))
        limit(cloud, journal.stat().st_size)
        assert is_clear(client.delete(f"{BOTS}/{kept['id']}"))
        assert client.get(f"{BOTS}/{kept['id']}").json == kept
        assert list(client.all(KEYS, "keys")) == before
        limit(cloud, resource.RLIM_INFINITY)
        again = client.create(KEYS, {"description": "there is room again"})
        limit(cloud, journal.stat().st_size)  # the stop, too, finds a full disk
    assert journal.exists()
    with run(tmp_path / "local") as (api, _):
        listed = list(api.client().all(KEYS, "keys"))
        assert [key["id"] for key in listed] == [again["id"], *(key["id"] for key in before)]


def test_a_journal_that_was_cut_is_served_up_to_there_and_it_is_said(tmp_path: Path) -> None:
    with run(tmp_path / "local") as (api, process):
        first, second = (api.client().create(BOTS, {"name": name})["id"] for name in ("first", "second"))
        os.kill(cloud_of(process), signal.SIGKILL)
        process.wait(timeout=30)
    journal = api.local / "cloud" / "journal-1"
    os.truncate(journal, journal.stat().st_size - 40)
    with run(tmp_path / "local") as (api, _):
        assert api.client().get(f"{BOTS}/{first}").status == 200
        assert api.client().get(f"{BOTS}/{second}").status == 404
        assert f"The journal {journal} ended in a change that is not whole: " in api.log.read_text()


def test_what_the_first_edition_kept_is_taken_up(tmp_path: Path) -> None:
    with run(tmp_path / "local") as (api, _):
        authority = api.client().create("/ssh_certificate_authorities", {})
    folder = api.local / "cloud"
    for name, state in json.loads((folder / "state.json").read_text())["services"].items():
        (folder / f"{name}.json").write_text(json.dumps({"__ministack_format__": 2, "payload": state}))
    (folder / "state.json").unlink()
    for _ in range(2):
        with run(tmp_path / "local") as (api, _):
            assert api.client().get(f"/ssh_certificate_authorities/{authority['id']}").status == 200
            asked: Mapping[str, Any] = {
                "ssh_certificate_authority_id": authority["id"],
                "public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0Sz0pVBEkVqhwXdvjUVMJYOSSOOKaLQ9cUZC0TvJSh",
            }
            assert api.client().post("/ssh_user_certificates", asked).status == 201  # with the key that KMS kept
        assert [file.name for file in folder.glob("*.json")] == ["state.json"]


def before_the_index(kept: Records) -> Records:
    """Return a part of the state as it was before the table had an index."""
    return {name: BEFORE_THE_INDEX.get(name, part) for name, part in kept.items()}


def test_a_store_from_before_the_index_of_audit_events_is_given_it(tmp_path: Path) -> None:
    with run(tmp_path / "local") as (api, _):
        old = api.client().create(BOTS, {"name": "old"})
    state = api.local / "cloud" / "state.json"
    state.write_text(json.dumps(json.loads(state.read_text(), object_hook=before_the_index)))
    for name in ("first", "second"):  # the second reads what the first has changed
        with run(tmp_path / "local") as (api, process):
            assert api.client().get(f"{BOTS}/{old['id']}").json == old | {"uri": f"{api.base_url}{BOTS}/{old['id']}"}
            new = api.client().create(BOTS, {"name": name})
            for bot in (old, new):
                (event,) = api.client().get(f"/audit_events?resource_id={bot['id']}").json["audit_events"]
                assert event["action"] == "bot_user.create"
            os.kill(cloud_of(process), signal.SIGKILL)
            process.wait(timeout=30)
