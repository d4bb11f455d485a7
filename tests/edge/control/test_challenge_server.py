"""Control's answers to challenges: from the records as they are at the request."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.tls import challenge_records
from chalicelib.model.tunnels import gateways
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.storage.records import change_log
from chalicelib.storage.records.change_log import ItemKey
from edge.control import challenge_answers
from edge.control.challenge_answers import ChallengeResponse
from edge.control.challenge_server import ChallengeServer
from edge.control.names.name_resolver import NameResolver
from edge.control.names.reads import StoreReads
from edge.plan.cold_reads import ReadBudget
from edge.process.settings import Settings
from edge.store.records import Grant, Opening
from tests import records
from tests.edge.control.waiting import until
from tests.edge.edge_table import EdgeTable

DOMAIN, OTHER = "app.example.com", "other.example.com"
PATH = "/.well-known/acme-challenge/token"
ANSWER = ChallengeResponse(200, "token.print")


def redirect(host: str) -> ChallengeResponse:
    return ChallengeResponse(308, location=f"https://{host}:8443{PATH}")


class CountingResolver(NameResolver):
    """Counts the hosts whose accounts it searches."""

    def __init__(self, tunnel_domain: str) -> None:
        super().__init__(tunnel_domain)
        self.searched = list[str]()

    def find_account(self, host: str) -> str:
        self.searched.append(host)
        return super().find_account(host)


class World:
    """A server on the table, with some names. `follow` is a read of the log."""

    def __init__(self, store: EdgeTable, folder: Path, most_reads: int = 100) -> None:
        self.settings, self.store = Settings(directory=folder), store
        for number, domain in enumerate([DOMAIN, OTHER, "mine.tunnels.localhost"]):
            id = f"rd_{number}"
            self.store.keep(ServedReservation("acct_a", id, domain, is_proved=domain != OTHER))
        gateways.announce(Gateway("gw-1", "127.0.0.1", 1), lease=60)
        for name in ("mine.tunnels.localhost", "free.tunnels.localhost"):
            opening = Opening(Grant("acct_a", "sshcr_1", ()), "gw-1", "ts_1", "127.0.0.1", name, f"https://{name}")
            self.store.open(opening, most=10)
        budget = ReadBudget(most_reads, self.settings.tunnel_domain, time.monotonic())
        self.resolver = CountingResolver(self.settings.tunnel_domain)
        self.resolver.refresh_gateways()
        self.server = ChallengeServer(self.settings, self.resolver, StoreReads(2), budget)

    def follow(self) -> None:
        self.server.apply(item_key for change in change_log.read_since(0) for item_key in change.item_keys)

    async def respond(self, host: str, path: str = PATH) -> ChallengeResponse:
        """Return the response to a request, while the log is read."""
        response = asyncio.create_task(self.server.respond(host, path))
        while not response.done():
            if self.store.is_away:
                self.server.apply([])
            else:
                self.follow()
            await asyncio.sleep(0.01)
        return response.result()


def run(store: EdgeTable, folder: Path, work: Callable[[World], Awaitable[None]], **options: int) -> None:
    async def begin() -> None:
        await work(World(store, folder, **options))

    asyncio.run(begin())


def test_each_name_is_answered_for_what_it_is(edge_table: EdgeTable, tmp_path: Path) -> None:
    async def work(world: World) -> None:
        world.store.challenge(DOMAIN, "token", ANSWER.body)
        world.follow()
        cases = {
            DOMAIN: ANSWER,
            f"{DOMAIN.upper()}:8080": ANSWER,
            OTHER: challenge_answers.UNKNOWN,  # not proved
            "mine.tunnels.localhost": redirect("mine.tunnels.localhost"),
            "free.tunnels.localhost": challenge_answers.UNRESERVED,
            "none.tunnels.localhost": challenge_answers.UNKNOWN,
            "tunnels.localhost": challenge_answers.UNKNOWN,
            "127.0.0.1:8080": challenge_answers.UNKNOWN,
            "": challenge_answers.UNKNOWN,
            "*.example.com": challenge_answers.UNKNOWN,
            "\xff.example": challenge_answers.UNKNOWN,
        }
        assert {host: await world.respond(host) for host in cases} == cases
        assert await world.respond(DOMAIN, f"{PATH}2") == replace(
            redirect(DOMAIN), location=redirect(DOMAIN).location + "2"
        )
        challenge_records.remove(DOMAIN)
        assert await world.respond(DOMAIN) == redirect(DOMAIN)

    run(edge_table, tmp_path, work)


def test_a_request_waits_for_a_challenge_that_was_written_before_it(edge_table: EdgeTable, tmp_path: Path) -> None:
    async def work(world: World) -> None:
        world.follow()
        world.store.challenge(DOMAIN, "token", ANSWER.body)
        response = asyncio.create_task(world.server.respond(DOMAIN, PATH))
        await asyncio.sleep(0.05)
        world.server.apply([])  # this read may have begun before the request
        await asyncio.sleep(0.05)
        assert not response.done()
        world.follow()
        assert await response == ANSWER

    run(edge_table, tmp_path, work)


def test_only_domains_in_the_log_have_their_answers_read(edge_table: EdgeTable, tmp_path: Path) -> None:
    async def work(world: World) -> None:
        world.store.challenge(DOMAIN, "token", ANSWER.body)
        for entry in records.with_scope("changes#"):
            records.remove(entry)
        assert await world.respond(DOMAIN) == redirect(DOMAIN)
        world.server.apply([ItemKey(f"acme_challenge#{DOMAIN}", DOMAIN)])
        assert await world.respond(DOMAIN) == ANSWER

    run(edge_table, tmp_path, work)


def test_above_the_bound_of_cold_reads_pending_domains_are_answered(edge_table: EdgeTable, tmp_path: Path) -> None:
    async def work(world: World) -> None:
        world.store.challenge(DOMAIN, "token", ANSWER.body)
        world.follow()
        responses = [await world.respond("mine.tunnels.localhost") for _ in range(2)]
        assert responses == [redirect("mine.tunnels.localhost"), challenge_answers.UNKNOWN]
        assert [await world.respond(DOMAIN) for _ in range(20)] == [ANSWER] * 20
        world.store.challenge(OTHER, "token", ANSWER.body)
        assert await world.respond(OTHER) == ANSWER  # which the log had not reported at the request

    run(edge_table, tmp_path, work, most_reads=1)


def test_challenges_use_a_tenth_of_the_cold_reads(edge_table: EdgeTable, tmp_path: Path) -> None:
    async def work(world: World) -> None:
        for number in range(200):
            await world.server.respond(f"none-{number}.tunnels.localhost", PATH)
        assert 50 <= len(world.resolver.searched) < 200

    run(edge_table, tmp_path, work, most_reads=1000)


def test_without_the_store_nothing_is_redirected(edge_table: EdgeTable, tmp_path: Path) -> None:
    async def work(world: World) -> None:
        world.store.is_away = True
        for host in (DOMAIN, "mine.tunnels.localhost"):
            assert await world.respond(host) == challenge_answers.UNAVAILABLE

    run(edge_table, tmp_path, work)


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (f"GET {PATH} HTTP/1.1\r\nhost: {DOMAIN}\r\n\r\n", b"HTTP/1.1 200 "),
        (f"HEAD {PATH} HTTP/1.1\r\nhost: {DOMAIN}\r\n\r\n", b"HTTP/1.1 200 "),
        (f"GET {PATH} HTTP/1.0\r\n\r\n", b"HTTP/1.1 404 "),
        ("nonsense\r\n\r\n", b""),
        ("", b""),
    ],
)
def test_the_socket_answers_one_request_of_a_connection(
    edge_table: EdgeTable, tmp_path: Path, request_text: str, status: bytes
) -> None:
    async def work(world: World) -> None:
        world.store.challenge(DOMAIN, "token", ANSWER.body)
        world.follow()
        serving = asyncio.create_task(world.server.serve())
        await until(lambda: world.settings.challenge_socket.exists())
        reader, writer = await asyncio.open_unix_connection(str(world.settings.challenge_socket))
        writer.write(request_text.encode())
        writer.write_eof()
        response = await reader.read(-1)
        assert response[: len(status) or None] == status
        assert response.endswith(ANSWER.body.encode()) is request_text.startswith("GET") & (b" 200 " in response)
        writer.close()
        serving.cancel()

    run(edge_table, tmp_path, work)
