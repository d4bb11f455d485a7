"""Makes 500 random changes of names while visitors use them, and compares each response with a model."""

import contextlib
import os
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count

import boto3

from bench import edge_host, results
from bench.edge_host import Host
from bench.engines import Setting
from bench.results import Result, Row
from bench.tenants import Served, Tenant
from chalicelib.model.names import bans, base_names
from chalicelib.operator import accounts
from chalicelib.storage.records import unique_keys
from infra.deploy import data_stack
from infra.local.cloud import HOST

_TABLE, _DOMAIN = "edge-random-changes", "tunnels.localhost"
_NAMES, _TENANTS, _CHANGES = 40, 4, 500
_PERIOD, _PAUSE = 0.02, 0.02  # seconds between changes, and between visits of one visitor
_VISITORS = 3  # with new connections, and as many with kept ones
_BOUND = 2.0  # seconds in which a change must be live, as the documentation promises
_LATER = 3.0  # further seconds for the ban of a pattern
_SEED = 1
_REFUSED = ""  # what a name answers that no edge serves


@dataclass
class _Name:
    """A name with its edge, if any, and its answers: each with the times of the change's start and end."""

    label: str
    owner: int = 0
    edge: Served | None = None
    body: str = ""
    is_banned: bool = False
    answers: list[tuple[float, float, str]] = field(default_factory=lambda: [(0.0, 0.0, _REFUSED)])

    @property
    def host(self) -> str:
        return f"{self.label}.{_DOMAIN}"


@dataclass(frozen=True)
class _Visit:
    """A visit, and the body of its answer. If `is_kept`, its connection began with an earlier visit."""

    name: _Name
    began: float
    ended: float
    body: str
    is_kept: bool


class _World:
    """The accounts and names, and the changes that the accounts and the operator make."""

    def __init__(self) -> None:
        self.names = [_Name(f"n{number:02}") for number in range(_NAMES)]
        self._tenants = [Tenant(f"tenant{number}", _DOMAIN) for number in range(_TENANTS)]
        self._is_on, self._chance, self._bodies = [True] * _TENANTS, random.Random(_SEED), count()
        self._store = boto3.client("dynamodb")
        for name in self.names:
            self._do(self._create, name)

    def change(self) -> None:
        """Change the edge of a name, its owner, or its ban."""
        name, chance = self._chance.choice(self.names), self._chance.random()
        if name.edge is None:
            self._do(self._lift if name.is_banned else self._create, name)
        elif not self._is_on[name.owner] or chance < 0.05:
            self._switch(name.owner)
        elif name.is_banned or chance < 0.2:
            self._do(self._lift if name.is_banned else self._ban, name)
        elif chance < 0.7:
            self._do(self._delete, name)
            if chance > 0.4:
                self._do(self._create, name)  # mostly by another account
        else:
            self._do(self._patch, name)

    def _do(self, act: Callable[[_Name], None], name: _Name) -> None:
        began, was_banned = time.monotonic(), name.is_banned
        act(name)
        self._record(name, began, _LATER if name.is_banned != was_banned else 0)

    def _record(self, name: _Name, began: float, later: float = 0) -> None:
        is_served = name.edge and self._is_on[name.owner] and not name.is_banned
        name.answers.append((began, time.monotonic() + later, name.body if is_served else _REFUSED))

    def _create(self, name: _Name) -> None:
        name.owner = self._chance.choice([number for number, is_on in enumerate(self._is_on) if is_on])
        name.body = f"{name.owner} {next(self._bodies)}"
        name.edge = self._tenants[name.owner].serve(name.label, name.body)

    def _patch(self, name: _Name) -> None:
        assert name.edge
        name.body = f"{name.owner} {next(self._bodies)}"
        self._tenants[name.owner].change(name.edge, {"body": name.body})

    def _delete(self, name: _Name) -> None:
        assert name.edge
        self._tenants[name.owner].delete(name.edge)
        self._end_cooldown(name.host)
        name.edge = None

    def _end_cooldown(self, host: str) -> None:
        """Let other accounts have a name now, and not only after a day."""
        key, ended = {"scope": {"S": f"{base_names.KIND}#{host}"}, "id": {"S": unique_keys.ID}}, {":ended": {"N": "1"}}
        self._store.update_item(
            TableName=_TABLE, Key=key, UpdateExpression="SET rests = :ended", ExpressionAttributeValues=ended
        )

    def _ban(self, name: _Name) -> None:
        bans.ban(f"{name.label}.*")
        name.is_banned = True

    def _lift(self, name: _Name) -> None:
        bans.allow(f"{name.label}.*")
        name.is_banned = False

    def _switch(self, owner: int) -> None:
        """Switch an account off or on. At least one stays on."""
        if self._is_on[owner] and sum(self._is_on) == 1:
            return
        began = time.monotonic()
        self._is_on[owner] = not self._is_on[owner]
        accounts.switch_account(self._tenants[owner].account.id, "on" if self._is_on[owner] else "off")
        for name in self.names:
            if name.edge and name.owner == owner:
                self._record(name, began)


def measure(_setting: Setting) -> Result:
    """Change names at random, and compare every visit with the model."""
    os.environ.update(TABLE_NAME=_TABLE, KEY_ID=f"alias/{_TABLE}", TUNNEL_DOMAIN=_DOMAIN)
    data_stack.deploy(_TABLE, {})
    world, visits, is_over = _World(), list[_Visit](), threading.Event()
    with edge_host.running() as host, ThreadPoolExecutor(2 * _VISITORS) as pool:
        host.load(name.host for name in world.names)
        visitors = [pool.submit(_visit, host, world.names, number, visits, is_over) for number in range(2 * _VISITORS)]
        try:
            for _ in range(_CHANGES):
                world.change()
                time.sleep(_PERIOD)
            time.sleep(2 * _BOUND)
        finally:
            is_over.set()
        for visitor in visitors:
            visitor.result()
    return Result([*_compare(visits)])


def _visit(host: Host, names: list[_Name], number: int, visits: list[_Visit], is_over: threading.Event) -> None:
    """Visit random names until the end. Half of the visitors keep a connection for each name."""
    chance, connections = random.Random(number), dict[str, ssl.SSLSocket]()
    while not is_over.wait(_PAUSE):
        name = chance.choice(names)
        connection, began = connections.pop(name.host, None), time.monotonic()
        is_kept, body = connection is not None, _REFUSED
        with contextlib.suppress(OSError, ValueError):
            connection = connection or _connect(host, name.host)
            status, body = _ask(connection, name.host)
            body = body if status == "200" else _REFUSED
        visits.append(_Visit(name, began, time.monotonic(), body, is_kept))
        if connection and number % 2 and body:
            connections[name.host] = connection
        elif connection:
            connection.close()


def _connect(host: Host, name: str) -> ssl.SSLSocket:
    raw = socket.create_connection((HOST, host.port), 5)
    secure = ssl._create_unverified_context().wrap_socket(raw, server_hostname=name)
    secure.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return secure


def _ask(connection: ssl.SSLSocket, name: str) -> tuple[str, str]:
    """Return the status and the body of an answer. Raises OSError, ValueError."""
    connection.sendall(f"GET / HTTP/1.1\r\nhost: {name}\r\n\r\n".encode())
    with connection.makefile("rb") as answer:
        status = answer.readline().decode().split(" ")[1:2]
        headers = dict(line.decode().lower().split(": ", 1) for line in iter(answer.readline, b"\r\n") if line)
        return status[0] if status else "", answer.read(int(headers["content-length"])).decode()


def _compare(visits: list[_Visit]) -> Iterator[Row]:
    """Yield the rows. The delay of a visit is its time since the change that ended the answer which it got."""
    refused, served, wrong = [0.0], [0.0], 0
    for visit in visits:
        answers = visit.name.answers
        if not any(began <= visit.ended and body == visit.body for began, _, body in answers):
            wrong += 1
            continue
        if visit.is_kept and not visit.body:
            continue  # a connection may end at any time
        delay = _find_delay(visit, answers)
        (served if visit.body == _REFUSED else refused).append(delay)
    yield results.reported("random changes: visits with them", len(visits), _CHANGES, results.number)
    yield results.exactly(
        "visits with an answer that the name never had", results.number(wrong), results.number(0), wrong
    )
    yield results.at_most(1, f"the former answer is given at most: {_BOUND:g} s", max(refused), _BOUND, results.ms)
    yield results.at_most(1, f"a served name is refused at most: {_BOUND:g} s", max(served), _BOUND, results.ms)


def _find_delay(visit: _Visit, answers: list[tuple[float, float, str]]) -> float:
    """Return how long before a visit its answer ended, 0 if the answer was right."""
    delay = float("inf")
    for number, (began, _, body) in enumerate(answers):
        if body == visit.body and began <= visit.ended:
            later = [end for _, end, other in answers[number + 1 :] if other != body]
            delay = max(0.0, visit.began - later[0]) if later else 0.0
    return delay
