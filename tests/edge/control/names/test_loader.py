"""Loading of names: joined requests, answers, changes, bounds, rejections, and a store that is away."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeAlias

import pytest

from chalicelib.model.tunnels.gateways import GATEWAYS, Gateway
from chalicelib.storage.records.change_log import ItemKey
from edge.control.names.loader import Loader
from edge.control.names.loading import NameErrors
from edge.control.names.reads import StoreReads
from edge.plan.names import NamePlan
from edge.process import log
from edge.process.settings import Limits, Settings
from edge.serving.order import Rejection
from tests.edge.control.names.loading_fakes import CLOSED, Envoy, Plans, Records, item_key, owner_key

A, B, D = "acct_a", "acct_b", "tunnels.example"
NAME, UNKNOWN = "app.shop.example", f"none.{D}"


@dataclass
class World:
    """A loader with its store and Envoy, and the errors that it reported."""

    loader: Loader
    records: Records
    envoy: Envoy
    errors: dict[str, NameErrors] = field(default_factory=dict)

    async def visit(self, *names: str) -> None:
        """Request secrets, and wait until each name is answered."""
        before = self.envoy.refused.copy()
        self.loader.request(names)
        await until(lambda: all(it in self.envoy.secrets or self.envoy.refused[it] > before[it] for it in names))

    async def change(self, *item_keys: ItemKey) -> None:
        self.loader.apply(item_keys)
        await self.rest()

    async def rest(self) -> None:
        """Wait until no account has work."""
        await until(lambda: not self.loader.is_busy)


Test: TypeAlias = Callable[[World], Awaitable[None]]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def loading(limits: Limits, resync_period: float) -> AsyncIterator[World]:
    records, envoy, errors = Records(), Envoy(), dict[str, NameErrors]()

    def report(plan: NamePlan, found: NameErrors) -> None:
        errors[plan.name] = found

    settings = Settings(tunnel_domain=D, limits=limits)
    loader = Loader(settings, records, Plans(), envoy, report, StoreReads(), resync_period=resync_period)
    serving = asyncio.create_task(loader.serve())
    try:
        yield World(loader, records, envoy, errors)
    finally:
        records.may_read.set()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


def run(test: Test, limits: Limits | None = None, resync_period: float = 180) -> None:
    async def ask() -> None:
        async with loading(limits or Limits(), resync_period) as world:
            await test(world)

    asyncio.run(ask())


def test_a_name_is_loaded_when_it_is_requested() -> None:
    async def test(world: World) -> None:
        world.records.serve(A, NAME, "cert_1 3")
        await world.visit(NAME)
        assert (world.envoy.secrets, world.envoy.scopes) == ({NAME: "cert_1"}, {NAME: "3"})
        assert world.records.reads == {"find": 1, "read": 1, "key_pair": 1}

    run(test)


def test_the_plan_of_an_edge_is_found_while_a_name_of_it_is_loaded_and_current() -> None:
    async def test(world: World) -> None:
        def routes() -> int | None:
            found = names.find_plan("edghts_1") if (names := world.loader.find_names(A)) else None
            return len(found.edge.routes) if found else None

        changed = world.records.serve(A, NAME, "cert_1 3")
        assert routes() is None
        await world.visit(NAME)
        assert routes() == 3
        world.records.serve(A, NAME, "cert_1 4")
        world.records.may_read.clear()
        world.loader.apply([changed])
        assert routes() is None
        world.records.may_read.set()
        await world.rest()
        assert routes() == 4
        world.records.is_away = True
        await world.change(changed)
        assert routes() is None
        world.records.is_away = False
        await until(lambda: routes() == 4)
        assert world.loader.find_names(B) is None

    run(test)


def test_requests_for_one_name_are_one_read() -> None:
    async def test(world: World) -> None:
        world.records.serve(A, NAME)
        world.records.may_read.clear()
        for _ in range(100):
            world.loader.request([NAME])
        world.records.may_read.set()
        await world.visit(NAME)
        assert world.records.reads == {"find": 1, "read": 1, "key_pair": 1}

    run(test)


def test_names_of_one_account_that_wait_leave_room_for_other_accounts() -> None:
    async def test(world: World) -> None:
        first, *labels = (f"x{number}.shop.example" for number in range(2101))
        world.records.serve(A, "*.shop.example")
        world.records.serve(B, "other.example")
        world.envoy.may_answer = {first: asyncio.Event()}
        world.loader.request([first])
        await until(lambda: first in world.envoy.sent)
        world.loader.request(labels)
        await until(lambda: world.envoy.refused.total() == len(labels) - 199)  # with the first, 200 wait
        await world.visit("other.example")
        assert world.envoy.secrets == {"other.example": "cert_1"}
        world.envoy.may_answer[first].set()
        await world.rest()
        assert len(world.envoy.secrets) == 201
        world.envoy.refused.clear()
        await world.visit(labels[-1])  # not remembered as refused
        assert labels[-1] in world.envoy.secrets

    run(test, Limits(max_cold_reads=50_000, max_loaded_names_per_wildcard=1000))


def test_another_request_for_a_loaded_name_is_answered_without_a_read() -> None:
    async def test(world: World) -> None:
        world.records.serve(A, NAME)
        await world.visit(NAME)
        world.records.reads.clear()
        world.envoy.secrets.clear()
        await world.visit(NAME)
        assert (world.envoy.secrets, world.records.reads) == ({NAME: "cert_1"}, {})

    run(test)


def test_a_name_with_capitals_has_the_routes_of_its_normal_form() -> None:
    async def test(world: World) -> None:
        changed = world.records.serve(A, NAME)
        await world.visit("App.shop.example", NAME, "APP.shop.example")
        assert world.envoy.secrets == dict.fromkeys([NAME, "App.shop.example", "APP.shop.example"], "cert_1")
        assert world.envoy.scopes == {NAME: "1"}
        assert world.records.reads == {"find": 1, "read": 1, "key_pair": 1}
        world.records.serve(A, NAME, "cert_2 1")
        await world.change(changed)
        await until(lambda: world.envoy.secrets == {NAME: "cert_2"})
        await world.visit("App.shop.example", f"None.{D}", "NONE.shop.example")
        assert world.envoy.secrets == {NAME: "cert_2", "App.shop.example": "cert_2", f"None.{D}": "operator"}

    run(test)


def test_a_change_plans_only_the_names_that_use_it() -> None:
    async def test(world: World) -> None:
        changed = world.records.serve(A, NAME)
        world.records.serve(A, "other.shop.example")
        await world.visit(NAME, "other.shop.example")
        world.envoy.sent.clear()
        world.records.serve(A, NAME, "cert_1 2")
        await world.change(changed)
        assert world.envoy.sent == [NAME]

    run(test)


def test_a_change_selects_the_records_of_each_name_once() -> None:
    async def test(world: World) -> None:
        names = [f"{number}.team.{D}" for number in range(20)]
        changed = world.records.serve(A, f"*.team.{D}")
        await world.visit(*names)
        world.records.kept = 0
        world.records.serve(A, f"*.team.{D}", "cert_1 2")
        await world.change(changed)
        assert world.envoy.scopes == dict.fromkeys(names, "2")
        assert world.records.kept == len(names)

    run(test)


def test_an_unknown_name_is_refused_and_remembered() -> None:
    async def test(world: World) -> None:
        for _ in range(3):
            await world.visit("none.shop.example")
        assert world.records.reads == {"find": 1}
        assert world.envoy.refused == {"none.shop.example": 3}

    run(test)


@pytest.mark.parametrize("name", ["link", "LINK", "Default", "*.shop.example", "a..example", "ä.example", "-"])
def test_what_is_no_host_name_is_refused_without_a_read(name: str) -> None:
    async def test(world: World) -> None:
        await world.visit(name)
        assert (world.records.reads, world.envoy.refused) == ({}, {name: 1})

    run(test)


def test_an_unknown_name_below_the_domain_gets_a_page_for_a_while() -> None:
    async def test(world: World) -> None:
        await world.visit(UNKNOWN)
        assert (world.envoy.secrets, world.envoy.scopes) == ({UNKNOWN: "operator"}, {})

    run(test)


def test_a_name_of_a_closed_edge_is_refused() -> None:
    async def test(world: World) -> None:
        changed = world.records.serve(A, UNKNOWN)
        await world.visit(UNKNOWN)
        world.records.serve(A, UNKNOWN, CLOSED)
        await world.change(changed)
        assert (world.envoy.secrets, world.envoy.scopes) == ({}, {})
        await world.visit(UNKNOWN)
        assert world.envoy.refused == {UNKNOWN: 1}

    run(test)


def test_pages_have_a_bound() -> None:
    async def test(world: World) -> None:
        await world.visit(UNKNOWN, f"more.{D}", f"most.{D}")
        assert len(world.envoy.secrets) == 2
        assert world.envoy.refused.total() == 1

    run(test, Limits(max_unknown_names=2))


@pytest.mark.parametrize("key", [f"tunnel_name#none.{D}", f"{A}#/tunnels"])
def test_a_name_with_a_page_is_loaded_when_it_gets_an_account(key: str) -> None:
    async def test(world: World) -> None:
        world.records.owners[UNKNOWN] = A if key.startswith(A) else ""
        await world.visit(UNKNOWN)
        world.records.serve(A, UNKNOWN)
        await world.change(ItemKey(key, "1"))
        await until(lambda: (world.envoy.scopes, world.envoy.secrets) == ({UNKNOWN: "1"}, {UNKNOWN: "cert_1"}))

    run(test)


@pytest.mark.parametrize("key", ["domain#none.shop.example", "domain#*.shop.example", "domain#*.example"])
def test_a_refusal_is_forgotten_when_a_domain_is_proved(key: str) -> None:
    async def test(world: World) -> None:
        name = "none.shop.example"
        await world.visit(name)
        world.records.serve(A, name)
        await world.visit(name)
        assert world.envoy.secrets == {}
        await world.change(ItemKey(key, "claim"))
        await world.visit(name)
        assert world.envoy.secrets == {name: "cert_1"}

    run(test)


def test_a_name_whose_keys_change_during_the_search_is_searched_again() -> None:
    async def test(world: World) -> None:
        world.records.may_read.clear()
        world.loader.request([UNKNOWN])
        await until(lambda: world.records.reads["find"] == 1)
        world.loader.apply([ItemKey(f"tunnel_name#{UNKNOWN}", "claim")])
        world.records.may_read.set()
        await world.visit(UNKNOWN)
        assert world.records.reads == {"find": 2}

    run(test)


def test_a_change_reaches_the_loaded_names_of_its_account_only() -> None:
    async def test(world: World) -> None:
        changed = world.records.serve(A, NAME)
        world.records.serve(B, "other.example")
        await world.visit(NAME, "other.example")
        world.records.reads.clear()
        world.records.serve(A, NAME, "cert_2 5")
        await world.change(changed, item_key("acct_unloaded", "x"))
        assert world.envoy.scopes == {NAME: "5", "other.example": "1"}
        assert world.envoy.secrets == {NAME: "cert_2", "other.example": "cert_1"}
        assert world.records.reads == {"read_changed": 1, "key_pair": 1}

    run(test)


def test_a_change_of_a_gateway_reaches_the_accounts_that_use_it() -> None:
    async def test(world: World) -> None:
        world.records.gateways[A] = Gateway("gw-1", "192.0.2.1", 1)
        for account, name in ((A, NAME), (B, "b.example")):
            world.records.serve(account, name)
        await world.visit(NAME, "b.example")
        await world.rest()
        world.records.reads.clear()
        await world.change(ItemKey(GATEWAYS, "gw-2"))
        assert world.records.reads == {}
        await world.change(ItemKey(GATEWAYS, "gw-1"))
        assert world.records.reads == {"read_changed": 1}

    run(test)


def test_a_change_without_another_version_sends_nothing() -> None:
    async def test(world: World) -> None:
        changed = world.records.serve(A, NAME)
        await world.visit(NAME)
        world.envoy.sent.clear()
        await world.change(changed)
        assert world.envoy.sent == []

    run(test)


def test_a_withdrawn_name_is_followed_so_that_open_connections_are_served_again() -> None:
    async def test(world: World) -> None:
        changed = world.records.serve(A, NAME)
        await world.visit(NAME)
        world.records.serve(A, NAME, "")
        await world.change(changed)
        assert (world.envoy.scopes, world.envoy.secrets) == ({}, {})
        await world.visit(NAME)
        assert world.envoy.refused[NAME] == 1
        world.records.serve(A, NAME, "cert_1 2")
        await world.change(changed)
        assert (world.envoy.scopes, world.envoy.secrets) == ({NAME: "2"}, {})
        await world.visit(NAME)
        assert world.envoy.secrets == {NAME: "cert_1"}

    run(test)


def test_a_withdrawn_name_is_served_for_its_next_account() -> None:
    async def test(world: World) -> None:
        former = world.records.serve(A, NAME)
        await world.visit(NAME)
        world.records.served[former] = ""
        await world.change(former)
        await world.visit(NAME)
        assert (world.envoy.secrets, world.envoy.scopes) == ({}, {})
        await world.change(world.records.serve(B, NAME, "cert_2 2"), ItemKey(f"domain#{NAME}", "owner"))
        await world.visit(NAME)
        assert (world.envoy.secrets, world.envoy.scopes) == ({NAME: "cert_2"}, {NAME: "2"})
        for value in ("", "cert_1 1"):  # the former account has forgotten the name
            world.records.served[former] = value
            await world.change(former)
            assert (world.envoy.secrets, world.envoy.scopes) == ({NAME: "cert_2"}, {NAME: "2"})

    run(test)


def test_a_withdrawn_name_with_a_page_is_served_again_at_once() -> None:
    async def test(world: World) -> None:
        name = f"demo.{D}"
        changed = world.records.serve(A, name, "operator 1")
        await world.visit(name)
        world.records.serve(A, name, "")
        await world.change(changed)
        await world.visit(name)
        assert (world.envoy.secrets, world.envoy.scopes) == ({name: "operator"}, {})
        world.records.serve(A, name, "operator 1")
        await world.change(changed)
        await world.visit(name)
        assert (world.envoy.secrets, world.envoy.scopes) == ({name: "operator"}, {name: "1"})

    run(test)


def test_withdrawn_names_with_pages_do_not_keep_the_operator_s_certificate_when_they_are_served_again() -> None:
    async def test(world: World) -> None:
        names = [f"{label}.team.{D}" for label in "abcdef"]
        changed = world.records.serve(A, f"*.team.{D}")
        await world.visit(*names)
        world.records.serve(A, f"*.team.{D}", "")
        await world.change(changed)
        await world.visit(*names)
        assert world.envoy.secrets == dict.fromkeys(names, "operator")
        world.records.serve(A, f"*.team.{D}")
        await world.change(changed)
        assert world.envoy.scopes == dict.fromkeys(names, "1")
        assert {*world.envoy.secrets.values()} <= {"cert_1"}
        await world.visit(*names)
        assert world.envoy.secrets == dict.fromkeys(names, "cert_1")

    run(test)


def test_a_page_that_a_resync_replaces_counts_as_a_secret_no_more() -> None:
    async def test(world: World) -> None:
        name = f"demo.{D}"
        changed = world.records.serve(A, name)
        await world.visit(name)
        world.records.serve(A, name, "")
        await world.change(changed)
        await world.visit(name)
        assert (world.envoy.secrets, world.loader.secrets) == ({name: "operator"}, 1)
        world.records.serve(A, name)
        await until(lambda: world.envoy.secrets == {name: "cert_1"})
        assert world.loader.secrets == 1

    run(test, resync_period=0.5)


def test_a_name_whose_record_changes_while_it_is_read_is_not_refused() -> None:
    async def test(world: World) -> None:
        world.records.serve(A, NAME)
        await world.visit(NAME)
        other = "other.shop.example"
        changed = world.records.serve(A, other, "")
        world.records.may_answer.clear()
        world.loader.request([other])
        await until(lambda: world.records.reads["read"] == 2)
        world.records.serve(A, other)
        world.loader.apply([changed])
        world.records.may_answer.set()
        await until(lambda: other in world.envoy.secrets or world.envoy.refused[other] > 0)
        assert (world.envoy.secrets.get(other), world.envoy.refused[other]) == ("cert_1", 0)

    run(test)


@pytest.mark.parametrize("name", [f"demo.{D}", NAME])
def test_a_name_that_passes_to_another_account_while_it_is_read_is_not_refused(name: str) -> None:
    async def test(world: World) -> None:
        world.records.serve(A, name, "")
        world.records.may_answer.clear()
        world.loader.request([name])
        await until(lambda: world.records.reads["read"] == 1)
        changed = world.records.serve(B, name, "cert_2 2")
        key = f"tunnel_name#{name}" if name.endswith(D) else f"domain#{name}"
        world.loader.apply([changed, ItemKey(key, "claim")])
        world.records.may_answer.set()
        await world.rest()
        assert (world.envoy.secrets, world.envoy.scopes) == ({name: "cert_2"}, {name: "2"})
        assert not world.envoy.refused

    run(test)


def test_a_name_that_passes_to_another_account_while_a_change_is_read_leaves_the_others_in_service() -> None:
    async def test(world: World) -> None:
        other = f"other.{D}"
        former, kept = world.records.serve(A, NAME), world.records.serve(A, other)
        await world.visit(NAME, other)
        world.records.served[former] = ""
        await world.change(former)
        world.records.may_change.clear()
        world.records.serve(A, other, "cert_1 2")
        world.loader.apply([kept])
        await until(lambda: world.records.reads["read_changed"] == 2)
        world.records.serve(B, NAME, "cert_2 1")
        await world.visit(NAME)
        world.records.may_change.set()
        await world.rest()
        assert world.envoy.scopes == {NAME: "1", other: "2"}

    run(test)


def test_when_the_store_is_away_loaded_names_stay_and_others_are_refused() -> None:
    async def test(world: World) -> None:
        changed = world.records.serve(A, NAME)
        world.records.serve(A, "cold.shop.example")
        await world.visit(NAME)
        world.records.is_away = True
        world.records.serve(A, NAME, "cert_1 7")
        await world.change(changed)
        await world.visit("cold.shop.example")
        assert world.envoy.refused == {"cold.shop.example": 1}
        assert world.envoy.scopes == {NAME: "1"}
        world.envoy.secrets.clear()
        await world.visit(NAME)
        assert world.envoy.secrets == {NAME: "cert_1"}
        world.records.is_away = False
        await until(lambda: world.envoy.scopes == {NAME: "7"})
        await world.visit("cold.shop.example")
        assert world.envoy.refused == {"cold.shop.example": 1}

    run(test)


def test_a_domain_has_a_tenth_of_the_budget() -> None:
    async def test(world: World) -> None:
        names = [f"n{it}.shop.example" for it in range(20)]
        await world.visit(*names, "other.example")
        assert world.records.reads["find"] == 6
        assert world.envoy.refused.total() == 21

    run(test, Limits(max_cold_reads=50))


def test_an_account_makes_room_with_its_own_names() -> None:
    async def test(world: World) -> None:
        world.records.serve(A, "*.shop.example")
        world.records.serve(B, "other.example")
        await world.visit("other.example")
        for it in range(5):
            await world.visit(f"n{it}.shop.example")
        assert [*world.envoy.scopes] == ["other.example", "n3.shop.example", "n4.shop.example"]
        assert world.envoy.secrets.keys() == world.envoy.scopes.keys()

    run(test, Limits(max_loaded_names_per_wildcard=2))


def test_a_name_above_its_account_s_share_is_refused_and_reported() -> None:
    async def test(world: World) -> None:
        world.records.serve(A, NAME, "cert_1 20")
        await world.visit(NAME)
        assert (world.envoy.scopes, world.envoy.refused) == ({}, {NAME: 1})
        assert world.errors == {
            NAME: NameErrors("The routes need more memory than an account can have on an edge host.")
        }

    run(test, Limits(max_loaded_mib=1))


def test_a_rejected_certificate_is_replaced_by_the_next_one() -> None:
    async def test(world: World) -> None:
        world.envoy.rejects = {"cert_bad": Rejection("secret", "a bad key")}
        world.records.serve(A, NAME, "cert_bad cert_2 1")
        world.records.serve(A, "alone.shop.example", "cert_bad 1")
        await world.visit(NAME, "alone.shop.example")
        assert world.envoy.secrets == {NAME: "cert_2"}
        assert world.envoy.scopes == {NAME: "1"}
        assert world.envoy.refused == {"alone.shop.example": 1}
        assert world.errors == {
            NAME: NameErrors(),
            "alone.shop.example": NameErrors(),
        }  # the records have no certificate

    run(test)


def test_a_key_that_cannot_be_decrypted_refuses_its_names() -> None:
    async def test(world: World) -> None:
        world.records.serve(A, NAME, "cert_sealed 1")
        await world.visit(NAME)
        assert world.envoy.refused == {NAME: 1}
        assert world.envoy.scopes == {}

    run(test)


def test_a_rejected_scope_refuses_a_new_name_and_leaves_a_loaded_one_as_it_was() -> None:
    async def test(world: World) -> None:
        world.envoy.rejects = {"9": Rejection("scope", "a bad route")}
        world.records.serve(A, "bad.shop.example", "cert_1 9")
        changed = world.records.serve(A, NAME, "cert_1 1")
        await world.visit(NAME, "bad.shop.example")
        assert world.envoy.refused == {"bad.shop.example": 1}
        world.records.serve(A, NAME, "cert_1 9")
        await world.change(changed)
        assert (world.envoy.scopes, world.envoy.secrets) == ({NAME: "1"}, {NAME: "cert_1"})
        assert world.errors[NAME] == NameErrors(routes="a bad route")
        world.records.serve(A, NAME, "cert_1 2")
        await world.change(changed)
        assert (world.envoy.scopes, world.errors[NAME]) == ({NAME: "2"}, NameErrors())

    run(test)


def test_a_name_in_use_keeps_its_routes_and_an_unused_one_is_forgotten() -> None:
    async def test(world: World) -> None:
        world.records.serve(A, NAME)
        world.records.serve(A, "idle.shop.example")
        await world.visit(NAME, "idle.shop.example")
        async with asyncio.timeout(5):
            while "idle.shop.example" in world.envoy.scopes:
                if NAME not in world.envoy.secrets:
                    await world.visit(NAME)
                await asyncio.sleep(0.01)
        assert world.envoy.scopes == {NAME: "1"}
        assert world.records.reads["find"] == 2

    run(test, Limits(name_period=1, max_connection_duration=-119))


def test_names_that_envoy_already_has_are_loaded_again_without_a_budget() -> None:
    async def test(world: World) -> None:
        names = [f"n{it}.shop.example" for it in range(100)]
        for it in names:
            world.records.serve(A, it, "cert_2 2")
        gone = "gone.shop.example"
        world.envoy.scopes = dict.fromkeys([*names, gone], "1")
        world.envoy.secrets = dict.fromkeys([*names, gone], "cert_1")
        world.records.is_away = True
        world.loader.restore([*names, gone])
        await until(lambda: world.records.reads["find"] >= 32)
        assert world.envoy.scopes == dict.fromkeys([*names, gone], "1")
        world.records.is_away = False
        await until(lambda: world.envoy.scopes == dict.fromkeys(names, "2"))
        assert world.envoy.secrets == dict.fromkeys(names, "cert_2")

    run(test, Limits(max_cold_reads=10))


def test_what_only_a_resync_finds_is_applied_and_counted() -> None:
    before = log.event_counts["change_missed"]

    async def test(world: World) -> None:
        world.records.serve(A, NAME)
        await world.visit(NAME)
        world.records.serve(A, NAME, "cert_1 4")
        await until(lambda: world.envoy.scopes == {NAME: "4"})
        for _ in range(3):
            world.loader.apply([])
        assert log.event_counts["change_missed"] == before + 1

    run(test, resync_period=0.1)


def test_a_banned_name_is_answered_as_unknown_without_a_read() -> None:
    async def test(world: World) -> None:
        world.records.serve(A, NAME)
        world.records.serve(A, UNKNOWN)
        world.loader.ban(["*.shop.example", UNKNOWN])
        await world.visit(NAME, UNKNOWN)
        assert (world.envoy.secrets, world.envoy.refused) == ({UNKNOWN: "operator"}, {NAME: 1})
        assert world.records.reads == {}

    run(test)


def test_names_are_served_at_once_when_their_ban_is_lifted() -> None:
    async def test(world: World) -> None:
        world.records.serve(A, NAME)
        world.records.serve(A, UNKNOWN)
        world.loader.ban(["*.shop.example", UNKNOWN])
        await world.visit(NAME, UNKNOWN)
        world.loader.ban(["*.shop.example"])
        await until(lambda: UNKNOWN in world.envoy.scopes)  # loaded for the open connections that got the page
        assert NAME not in world.envoy.scopes
        world.loader.ban([])
        await world.visit(NAME)
        assert NAME in world.envoy.scopes

    run(test)


def test_an_unknown_name_is_refused_within_a_second_while_the_store_is_silent() -> None:
    async def test(world: World) -> None:
        world.records.may_read.clear()
        began = time.monotonic()
        await world.visit(*(f"n{number}.shop{number}.example" for number in range(300)))
        assert time.monotonic() - began < 1.5  # 0.8 s without any answer, and some for a loaded machine
        reads = world.records.reads.copy()
        for name in ("a.shop.example", "b.shop.example"):
            began = time.monotonic()
            await world.visit(name)
            assert time.monotonic() - began < 0.5  # without a read
        assert world.records.reads == reads

    run(test)


def test_spellings_of_a_loaded_name_with_capitals_have_a_budget() -> None:
    async def test(world: World) -> None:
        world.records.serve(A, NAME)
        await world.visit(NAME)
        spellings = [NAME[:number] + NAME[number:].upper() for number in range(3)] + [
            NAME[:number].upper() + NAME[number:] for number in range(4, len(NAME))
        ]
        for it in spellings:
            await world.visit(it)
        assert 0 < world.envoy.refused.total() == len(spellings) + 1 - len(world.envoy.secrets)
        world.envoy.secrets.clear()
        await world.visit(NAME)
        assert world.envoy.secrets == {NAME: "cert_1"}

    run(test, Limits(max_cold_reads=50))


def test_a_domain_that_another_account_proves_while_its_name_is_loaded_is_lost() -> None:
    async def test(world: World) -> None:
        world.records.serve(A, "first.example")
        await world.visit("first.example")  # so that the search does not read the account's records
        served = world.records.serve(A, NAME)
        world.records.may_answer.clear()
        world.loader.request([NAME])
        await until(lambda: world.records.reads["read"] == 2)
        del world.records.served[served]
        world.loader.apply([owner_key(NAME)])
        world.records.may_answer.set()
        await world.rest()
        assert (NAME in world.envoy.scopes, "first.example" in world.envoy.scopes) == (False, True)

    run(test)


@pytest.mark.parametrize("is_changed", [True, False])
def test_a_name_with_a_changed_record_that_cannot_be_decoded_is_refused_until_it_can(*, is_changed: bool) -> None:
    async def test(world: World) -> None:
        changed, other = world.records.serve(A, NAME), "other.shop.example"
        world.records.serve(A, other)
        await world.visit(NAME, other)
        world.records.is_broken = True
        await world.change(changed)
        assert (world.envoy.scopes, set(world.envoy.secrets)) == ({other: "1"}, {other})
        assert (
            world.errors[NAME].refusal == "A changed record of the account cannot be read, so the name is not served."
        )
        await world.visit(NAME)
        assert (world.envoy.scopes, NAME in world.envoy.secrets) == ({other: "1"}, False)
        if is_changed:
            world.records.serve(A, NAME, "cert_1 2")
        world.records.is_broken = False
        await until(lambda: world.envoy.scopes == {NAME: "2" if is_changed else "1", other: "1"})
        await world.rest()
        assert world.errors[NAME].refusal == ""
        await world.visit(NAME)
        assert world.envoy.secrets[NAME] == "cert_1"

    run(test)


def test_a_change_of_an_account_without_loaded_names_is_no_read() -> None:
    async def test(world: World) -> None:
        changed = world.records.serve(A, NAME, "")
        await world.visit(NAME)
        world.records.reads.clear()
        await world.change(changed)
        assert world.records.reads == {}

    run(test)


def test_a_name_whose_store_is_away_during_a_change_stays_in_service() -> None:
    async def test(world: World) -> None:
        changed = world.records.serve(A, NAME)
        await world.visit(NAME)
        world.records.is_away = True
        world.records.serve(A, NAME, "")
        await world.change(changed)
        assert world.envoy.scopes == {NAME: "1"}
        world.records.is_away = False
        await until(lambda: world.envoy.scopes == {})

    run(test)
