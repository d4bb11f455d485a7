"""One edge for each file of tests that share it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.edge.running import ENVOY, Edge, running, until, upstream

needs_envoy = pytest.mark.needs("the live edge")


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """Run an edge, with Envoy where it is installed."""
    with running(tmp_path_factory.mktemp("edge"), with_envoy=ENVOY is not None) as started:
        yield started


@pytest.fixture(scope="module")
def origin() -> Iterator[int]:
    """Run a server to forward to; yield its port."""
    with upstream() as port:
        yield port


@pytest.fixture(autouse=True)
def clients_end(request: pytest.FixtureRequest) -> Iterator[None]:
    """End the clients that a test started, and wait until their tunnels have gone: the next test finds none of them."""
    if "edge" not in request.fixturenames:
        yield
        return
    edge: Edge = request.getfixturevalue("edge")
    before = edge.open_tunnels()
    yield
    while edge.started:
        edge.started.pop().kill()
    until(lambda: edge.open_tunnels() <= before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
