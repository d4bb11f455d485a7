"""The table of the tests, as the edge uses it."""

from collections.abc import Iterator

import pytest

from tests.edge.edge_table import EdgeTable


@pytest.fixture
def edge_table() -> Iterator[EdgeTable]:
    table = EdgeTable()
    yield table
    table.end()
