"""Events of one resource that two processes change at once, while somebody else pages."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conftest import ROOT, Served

CHANGES = 20  # of each process
GROUPS = "/backends/tunnel_group"
WRITER = f"""
import sys, time
from tests.transports import Client, InProcess
token, address, name = sys.argv[1:]
client = Client(InProcess()).with_token(token)
client.get(address)
print("ready", file=sys.stderr, flush=True)
sys.stdin.readline()
for number in range({CHANGES}):
    answer = client.patch(address, {{"labels": {{"by": f"{{name}}{{number}}"}}}})
    assert answer.status == 200, answer.text
    print(answer.headers["operation-id"], time.monotonic(), file=sys.stderr, flush=True)
"""


@dataclass(frozen=True)
class Race:
    """What two writers did and a reader saw: acknowledged operations and walks by their time, and all at the end."""

    group: str
    acknowledged: dict[str, float]
    walks: list[tuple[float, list[Any]]]
    events: list[Any]


@pytest.fixture(scope="module")
def race(served: Served) -> Race:
    api = served.newcomer()
    client = api.client()
    group = client.create(GROUPS, {"labels": {"by": "nobody"}})["id"]
    writers = [writer(api, f"{GROUPS}/{group}", name) for name in ("a", "b")]
    for process in writers:
        assert process.stderr
        assert process.stderr.readline() == "ready\n"
    for process in writers:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    walks = []
    while any(writer.poll() is None for writer in writers):
        began = time.monotonic()
        walks.append((began, list(client.all("/audit_events", "audit_events", 9))))
    outputs = [writer.communicate(timeout=30)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0], outputs
    acknowledged = {
        id: float(moment) for id, moment in (line.split() for text in outputs for line in text.splitlines())
    }
    return Race(group, acknowledged, walks, list(client.all("/audit_events", "audit_events", 100)))


def writer(api: Served, address: str, name: str) -> subprocess.Popen[str]:
    """Start a process that changes a group when it is told to, by an API of its own on the same table."""
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, api.token, address, name], cwd=ROOT, env={**os.environ, **api.cloud}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_the_changes_of_two_processes_to_one_resource_are_in_the_order_of_its_revisions(race: Race) -> None:
    of_group = [event for event in race.events if event["resource_id"] == race.group]
    creation, *updates = sorted(of_group, key=lambda event: int(event["revision"]))
    assert len(updates) == len(race.acknowledged) == 2 * CHANGES
    assert [event["revision"] for event in (creation, *updates)] == [*range(1, 2 * CHANGES + 2)]
    labels = creation["details"]["labels.by"]
    for event in updates:
        assert event["details"]["before"] == {"labels.by": labels}
        labels = event["details"]["after"]["labels.by"]


def test_who_pages_while_two_processes_write_misses_nothing_and_sees_nothing_twice(race: Race) -> None:
    assert len(race.walks) > 1
    for began, walk in race.walks:
        event_ids = [event["id"] for event in walk]
        assert event_ids == sorted({*event_ids}, reverse=True)
        before = {id for id, moment in race.acknowledged.items() if moment < began}
        assert before <= {event["operation_id"] for event in walk}
        assert all(event in race.events for event in walk)
