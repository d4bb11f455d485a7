"""A run of a tunnel, against gateways that refuse, end, ask to wait, or have another key."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import asyncssh
import pytest

from tests.cli.tunnels.gateways import SIGN_IN, URL, Plan, serve
from tests.conftest import free_port
from tunnel_edge.errors import CommandError
from tunnel_edge.tunnels.gateways import Gateway, SignIn
from tunnel_edge.tunnels.relay import NoTap, Relay
from tunnel_edge.tunnels.requested import LocalServer, RequestedTunnel
from tunnel_edge.tunnels.run import Run


@dataclass
class Shown:
    """Implements tunnel_edge.tunnels.run.Screen."""

    addresses: list[str] = field(default_factory=list)
    requests: list[Mapping[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def show_address(self, url: str) -> None:
        self.addresses.append(url)

    def show_request(self, event: Mapping[str, Any]) -> None:
        self.requests.append(event)

    def note(self, text: str) -> None:
        self.notes.append(text)


@dataclass
class Keys:
    """Provides one key, or a new one with each end."""

    sign_ins: list[SignIn] = field(default_factory=lambda: [SIGN_IN])
    calls: int = 0

    def current(self) -> SignIn:
        self.calls += 1
        while len(self.sign_ins) > 1 and (self.sign_ins[0].ends_at or 0) <= time.time():
            self.sign_ins.pop(0)
        return self.sign_ins[0]


def start(
    gateways: Sequence[Gateway], shown: Shown, *, keys: Keys | None = None, name: str = "demo"
) -> "asyncio.Task[None]":
    relay = Relay(LocalServer("127.0.0.1", 1), lambda _: NoTap(), shown.note)
    run = Run(RequestedTunnel("http", name), relay, keys or Keys(), lambda: tuple(gateways), shown)
    return asyncio.create_task(run.serve())


async def until(true: Callable[[], bool], run: "asyncio.Task[None]") -> None:
    """Wait until something is true, or raise the error of the run."""
    async with asyncio.timeout(10):
        while not true():
            if run.done():
                run.result()
            await asyncio.sleep(0.005)


async def end(run: "asyncio.Task[None]") -> None:
    run.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await run


def error_of(gateway: Callable[[Gateway], Gateway], plan: Plan, keys: Keys | None = None) -> CommandError:
    """Return the error that ends a run."""

    async def main() -> None:
        async with asyncio.timeout(20), serve(plan) as server:
            await start([gateway(server)], Shown(), keys=keys)

    with pytest.raises(CommandError) as error:
        asyncio.run(main())
    return error.value


def same(gateway: Gateway) -> Gateway:
    return gateway


@pytest.mark.parametrize("host_keys", [0, 1])
def test_a_host_key_that_the_service_does_not_name_is_an_error(host_keys: int) -> None:
    other_keys = [asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode() for _ in range(host_keys)]
    plan = Plan()
    error = error_of(lambda gateway: Gateway(gateway.host, gateway.port, tuple(other_keys) or ("nonsense",)), plan)
    assert error.code == 1
    assert "has a host key that the service does not name" in str(error)
    assert plan.requests == []


def test_a_key_that_the_gateway_does_not_accept_ends_with_seven() -> None:
    other = SignIn("te", (asyncssh.generate_private_key("ssh-ed25519"),))
    error = error_of(same, Plan(), Keys([other]))
    assert (error.code, "does not accept the key" in str(error)) == (7, True)


@pytest.mark.parametrize(("code", "final"), [("not_permitted", True), ("name_taken", False)])
def test_a_first_refusal_ends_with_seven_and_its_sentence(code: str, final: bool) -> None:
    plan = Plan(refused=[{"code": code, "message": "demo is not for you.", "final": final}])
    error = error_of(same, plan)
    assert (error.code, str(error)) == (7, "demo is not for you.")


def test_no_gateway_in_reach_ends_with_five_after_three_tries() -> None:
    start = time.monotonic()
    error = error_of(lambda gateway: Gateway(gateway.host, free_port(), gateway.host_keys), Plan())
    assert (error.code, str(error).startswith("No gateway can be reached. ")) == (5, True)
    assert time.monotonic() - start < 4


def test_a_store_that_is_away_at_first_is_tried_again() -> None:
    async def main() -> Shown:
        plan, shown = Plan(refused=[{"code": "unavailable", "message": "Away.", "final": False}]), Shown()
        async with serve(plan) as gateway:
            run = start([gateway], shown)
            await until(lambda: bool(shown.addresses), run)
            await end(run)
        return shown

    shown = asyncio.run(main())
    assert (shown.addresses, shown.notes) == ([URL], ["Away. Trying again …"])


def test_a_connection_that_ends_is_replaced_with_the_same_name_at_the_next_gateway() -> None:
    async def main() -> tuple[Plan, Plan, Shown]:
        first, second, shown = Plan(), Plan(), Shown()
        async with serve(first) as first_gateway, serve(second) as other:
            run = start([first_gateway, other], shown, name="")
            await until(lambda: bool(shown.addresses), run)
            first.connections[-1].abort()
            await until(lambda: len(second.requests) == 1, run)
            second.connections[-1].abort()
            await until(lambda: len(first.requests) == 2, run)
            await until(lambda: shown.notes[-1:] == [f"{URL} is online again."], run)
            await end(run)
        return first, second, shown

    first, second, shown = asyncio.run(main())
    assert first.requests == [("localhost", 80), ("demo.example.com", 80)]
    assert second.requests == [("demo.example.com", 80)]
    assert shown.addresses == [URL]


def test_after_a_reconnect_only_a_final_refusal_ends_the_run() -> None:
    async def main() -> None:
        plan, shown = Plan(), Shown()
        async with asyncio.timeout(20), serve(plan) as gateway:
            run = start([gateway], shown)
            await until(lambda: bool(shown.addresses), run)
            plan.refused += [
                {"code": "name_taken", "message": "Taken.", "final": False},
                {"code": "name_banned", "message": "Banned.", "final": True},
            ]
            plan.connections[-1].abort()
            with contextlib.suppress(asyncio.CancelledError):
                await run

    with pytest.raises(CommandError, match=r"^Banned\.$") as error:
        asyncio.run(main())
    assert error.value.code == 7


def test_a_notice_says_how_long_to_wait() -> None:
    async def main() -> float:
        plan, shown = Plan(events=[{"event": "notice", "message": "Restart.", "retry_after": 0.7}]), Shown()
        async with serve(plan) as gateway:
            run = start([gateway], shown)
            await until(lambda: "Restart." in shown.notes, run)
            began = time.monotonic()
            plan.connections[-1].disconnect(asyncssh.DISC_BY_APPLICATION, "This gateway restarts.")
            await until(lambda: len(plan.requests) == 2, run)
            await end(run)
        return time.monotonic() - began

    assert 0.7 <= asyncio.run(main()) < 5


def test_a_tunnel_that_the_gateway_ends_is_requested_again() -> None:
    async def main() -> Shown:
        plan, shown = Plan(events=[{"event": "ended", "id": "tn_1", "message": "It has ended."}]), Shown()
        async with serve(plan) as gateway:
            run = start([gateway], shown)
            await until(lambda: len(plan.requests) == 2, run)
            await end(run)
        return shown

    assert "It has ended." in asyncio.run(main()).notes


def test_a_certificate_that_ends_is_replaced_before() -> None:
    async def main() -> tuple[int, list[str]]:
        plan, shown = Plan(), Shown()
        keys = Keys([SignIn("te", SIGN_IN.keys, time.time() + 0.5), SignIn("te", SIGN_IN.keys, time.time() + 60)])
        async with serve(plan) as gateway:
            run = start([gateway], shown, keys=keys)
            await until(lambda: len(plan.requests) == 2, run)
            await end(run)
        return len(plan.requests), shown.notes

    request_count, notes = asyncio.run(main())
    assert (request_count, notes[0]) == (2, "The certificate ends soon. Connecting again with a new one …")


def test_an_older_gateway_without_events_shows_its_sentences() -> None:
    async def main() -> Shown:
        plan, shown = Plan(has_events=False), Shown()
        async with serve(plan) as gateway:
            run = start([gateway], shown)
            await until(lambda: bool(shown.addresses), run)
            await end(run)
        return shown

    assert asyncio.run(main()).addresses == [URL]


def test_requests_and_unknown_events_change_nothing() -> None:
    request = {"event": "request", "method": "GET", "path": "/", "status": 200}
    odd: list[Mapping[str, Any]] = [
        {"event": "new", "x": 1},
        {"event": "notice", "message": 5, "retry_after": "soon"},
        {"x": 1},
        request,
    ]

    async def main() -> Shown:
        plan, shown = Plan(events=odd), Shown()
        async with serve(plan) as gateway:
            run = start([gateway], shown)
            await until(lambda: bool(shown.requests), run)
            await end(run)
        return shown

    assert asyncio.run(main()).requests == [request]
