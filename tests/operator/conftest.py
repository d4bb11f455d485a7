"""Fixtures of the operator's tests."""

from collections.abc import Iterator

import pytest

from tests.operator.restored import Tables


@pytest.fixture
def tables() -> Iterator[Tables]:
    tables = Tables()
    yield tables
    tables.drop()
