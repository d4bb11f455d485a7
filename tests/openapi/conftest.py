"""What the tests of the document share: an admin, of whom the gateway tells, with the id of a key."""

from dataclasses import replace

import pytest

from chalicelib import clock, ids
from chalicelib.http.auth import Caller
from tests import gateway
from tests.transports import Client


@pytest.fixture
def admin() -> Client:
    client = gateway.admin()
    caller = Caller(client.account, client.user, admin=True, key=ids.new("ak"), used=clock.seconds())
    return replace(client, transport=gateway.Gateway(caller))
