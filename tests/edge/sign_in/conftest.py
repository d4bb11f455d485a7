"""The fake identity providers, one set for each file of tests."""

from collections.abc import Iterator

import pytest

from tests.edge.sign_in import fake_providers
from tests.edge.sign_in.fake_providers import FakeProviders


@pytest.fixture(scope="module")
def served_providers() -> Iterator[FakeProviders]:
    with fake_providers.serve() as fake:
        yield fake


@pytest.fixture
def providers(served_providers: FakeProviders) -> FakeProviders:
    """Return the providers with the same people for each test."""
    served_providers.reset()
    return served_providers
