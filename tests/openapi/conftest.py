"""What the tests of the document share: an admin, of whom the gateway tells."""

import pytest

from tests import gateway
from tests.transports import Client


@pytest.fixture
def admin() -> Client:
    return gateway.admin()
