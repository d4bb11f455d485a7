"""A sign-in service in this process, with a route, a browser and a clock that tests move."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from chalicelib.storage import vault
from chalicelib.storage.client import aws
from edge.sign_in.dependencies import Dependencies
from edge.sign_in.provider import provider_table
from edge.sign_in.provider.limits import ExchangeLimits
from edge.sign_in.provider.provider_client import ProviderClient
from edge.sign_in.service import SignInService
from edge.sign_in.sign_in_metrics import SignInMetrics
from edge.sign_in.sign_in_records import SignInRecords
from tests.edge.sign_in.browser import SIGN_IN_HOST, Browser
from tests.edge.sign_in.fake_providers import FakeProviders
from tests.transports import Client

TIMEOUT = 8.0  # seconds: under load a provider can be slow


class Clock:
    """A clock that stands until it is moved. It begins at the real time."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@contextlib.asynccontextmanager
async def serving(fake: FakeProviders, clock: Clock, timeout: float = TIMEOUT) -> AsyncIterator[SignInService]:
    """Yield the sign-in service of one host. A call to a provider has a timeout in seconds."""
    records = SignInRecords()
    exchange = ProviderClient(timeout=2 * timeout, call_timeout=timeout, clock=clock, watch_date=lambda date: None)
    providers, limits = provider_table.with_endpoints(fake.endpoints()), ExchangeLimits(8)
    dependencies = Dependencies(records, exchange, providers, limits, clock, SignInMetrics())
    service = SignInService(dependencies, f"https://{SIGN_IN_HOST}")
    with contextlib.suppress(aws.AwsError, vault.Unreadable):  # the process tries again
        await records.refresh()
    try:
        yield service
    finally:
        await exchange.close()


def run(
    admin: Client,
    fake: FakeProviders,
    module: dict[str, Any],
    test: Callable[[Browser, Clock], Awaitable[None]],
    timeout: float = TIMEOUT,
) -> None:
    """Run a test with a browser of a route that has the module."""
    edge = admin.create("/edges/https", {"hostports": ["app.tunnels.localhost:443"]})
    route = admin.create(f"/edges/https/{edge['id']}/routes", {"match_type": "path_prefix", "match": "/"})
    assert admin.put(f"/edges/https/{edge['id']}/routes/{route['id']}/oauth", module).status == 200

    async def work() -> None:
        clock = Clock()
        rule = await SignInRecords().current_rule(admin.account, edge["id"], route["id"])
        assert rule
        async with serving(fake, clock, timeout) as service:
            await test(Browser(service, rule), clock)

    asyncio.run(work())
