"""One edge for each file of tests that share it."""

import re
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import pytest

from chalicelib.model.base.kinds import EDGE
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import change_log
from tests import aws_in_memory
from tests.conftest import Account, empty_table, note, stored
from tests.live.edge.running import ENVOY, RUNNING, Edge, running, until, upstream

# Partitions of what edges store of themselves.
_OF_EDGES = rf"changes#|{EDGE}#/(?:authorities$|gateways$|hosts|settings)"
needs_envoy = pytest.mark.needs("the live edge")


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """Run an edge, with Envoy where it is installed."""
    with running(tmp_path_factory.mktemp("edge"), with_envoy=ENVOY is not None) as running_edge:
        yield running_edge


@pytest.fixture(scope="module", autouse=True)
def emptied_at_the_end(accounts: Mapping[str, Account]) -> Iterator[None]:
    """Empty the table after the last test of a file. The records of its edge are there until then."""
    yield
    empty_table()


@pytest.fixture(autouse=True)
def reset_store(accounts: Mapping[str, Account]) -> Iterator[None]:
    """Remove the records of each test after it. What edges store of themselves stays while they run."""
    before = {scope: {*records} for scope, records in stored().items()}
    yield
    for store in RUNNING:
        store.reset()
    if RUNNING:
        _remove_new(before)
    else:
        empty_table()


def _remove_new(before: Mapping[Any, Set[Any]]) -> None:
    """Remove records that were not there before, with an entry in the change log."""
    with aws_in_memory.one_at_a_time:
        scopes = [scope for scope in stored() if not re.match(_OF_EDGES, scope)]
        new = {scope: stored()[scope].keys() - before.get(scope, set()) for scope in scopes}
        records = {(scope, id): stored()[scope].pop(id) for scope, ids in new.items() for id in ids}
    note(records.values())
    for write in change_log.entries(Write.delete(*key) for key in records):
        dynamodb.do(write)


@pytest.fixture(scope="module")
def origin() -> Iterator[int]:
    """Run a server to forward to; yield its port."""
    with upstream() as port:
        yield port


@pytest.fixture(autouse=True)
def clients_end(request: pytest.FixtureRequest, reset_store: None) -> Iterator[None]:
    """End the clients that a test started, and wait until their tunnels have gone: the next test finds none of them."""
    if "edge" not in request.fixturenames:
        yield
        return
    edge: Edge = request.getfixturevalue("edge")
    before = edge.open_tunnels()
    yield
    while edge.clients:
        edge.clients.pop().kill()
    until(lambda: edge.open_tunnels() <= before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
