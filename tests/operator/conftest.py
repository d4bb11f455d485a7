"""Fixtures of the operator's tests."""

from collections.abc import Iterator

import pytest

from tests.operator.restored import Tables


@pytest.fixture
def tables() -> Iterator[Tables]:
    found = Tables()
    yield found
    found.drop()
