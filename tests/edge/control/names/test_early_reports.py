"""Errors of Envoy about records that a host read before the log of changes had them: they stay reported."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from chalicelib.model.edges.edge_status import Report
from chalicelib.storage.records.change_log import ItemKey
from edge.control.names.loader import Loader
from edge.control.names.reads import StoreReads
from edge.control.rejections import Rejections
from edge.process.settings import Limits, Settings
from edge.serving.order import Rejection
from tests.edge.control.names.loading_fakes import Envoy, Plans, Records, item_key
from tests.edge.control.waiting import until
from tests.edge.plan import worlds

A, NAME = "acct_a", "app.shop.example"
CERTIFICATE = ItemKey(f"{A}#/tls_certificates", "cert_bad")


@dataclass
class World:
    """A loader that passes Envoy's errors on, and the reports of the host by the id of the edge or certificate."""

    records: Records = field(default_factory=Records)
    envoy: Envoy = field(default_factory=Envoy)
    reported: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rejections = Rejections("one", self._write)
        settings, report = Settings(tunnel_domain="tunnels.example", limits=Limits()), self.rejections.report_name
        self.loader = Loader(settings, self.records, Plans(), self.envoy, report, StoreReads(), resync_period=1)

    async def visit(self) -> None:
        self.loader.request([NAME])
        await until(lambda: NAME in self.envoy.secrets)

    async def read_log(self, *item_keys: ItemKey) -> None:
        """Handle changes in the order of control."""
        self.loader.apply(item_keys)
        self.rejections.forget(item_keys)
        await until(lambda: not self.loader.is_busy)

    def _write(self, account: str, id: str, report: Report | None) -> None:
        self.reported.pop(id, None)
        if report:
            self.reported[id] = dict(report.errors)


def run(test: Callable[[World], Awaitable[None]]) -> None:
    async def ask() -> None:
        world = World()
        serving = asyncio.create_task(world.loader.serve())
        try:
            await test(world)
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving

    asyncio.run(ask())


def test_a_rejected_certificate_that_a_visit_read_before_the_log_stays_reported() -> None:
    async def test(world: World) -> None:
        world.envoy.rejects = {"cert_bad": Rejection("secret", "a weak key")}
        world.records.certificates = {"cert_bad": worlds.certificate("cert_bad", NAME, account=A)}
        world.records.serve(A, NAME, "cert_bad cert_2 1")
        await world.visit()
        assert world.envoy.secrets == {NAME: "cert_2"}
        await world.read_log(CERTIFICATE)
        assert world.reported["cert_bad"] == {"cert_bad": "a weak key"}

    run(test)


def test_rejected_routes_that_a_resync_read_before_the_log_stay_reported() -> None:
    async def test(world: World) -> None:
        world.envoy.rejects = {"2": Rejection("scope", "a bad route")}
        world.records.serve(A, NAME, "cert_1 1")
        await world.visit()
        world.records.serve(A, NAME, "cert_1 2")
        await until(lambda: bool(world.reported))
        before = dict(world.reported)
        await world.read_log(ItemKey(f"{A}#/edges/https", "edghts_1"), item_key(A, NAME))
        assert world.reported == before == {"edghts_1": {"r0": "a bad route", "r1": "a bad route"}}

    run(test)


def test_errors_of_a_deleted_certificate_are_not_reported_again() -> None:
    async def test(world: World) -> None:
        world.envoy.rejects = {"cert_bad": Rejection("secret", "a weak key")}
        world.records.certificates = {"cert_bad": worlds.certificate("cert_bad", NAME, account=A)}
        changed = world.records.serve(A, NAME, "cert_bad cert_2 1")
        await world.visit()
        world.records.certificates.clear()
        world.records.serve(A, NAME, "cert_2 1")
        await world.read_log(CERTIFICATE, changed)
        assert world.reported == {}

    run(test)
