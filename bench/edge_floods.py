"""Floods of an edge host with 1,000 loaded names: unknown names, labels below a wildcard, and Host headers."""

import asyncio
import multiprocessing
import os
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import count, islice
from statistics import median

from bench import edge_host, hellos, results
from bench.edge_accounts import Accounts, create_edge
from bench.edge_host import Host
from bench.engines import Setting
from bench.results import Result, Row
from bench.tenants import Tenant
from infra.deploy import data_stack
from infra.local.cloud import HOST

_TABLE, _DOMAIN = "edge-floods", "tunnels.localhost"
_WILDCARD = f"wild.{_DOMAIN}"
_LOADED, _COLD = 1000, 300
_RATE, _SECONDS = 1000, 60  # names a second
_HEADERS, _CONNECTIONS = 5000, 10
_SLOWER, _GROWTH = 3, 5 << 20  # how much slower a loaded name may be; how much a flood may add
_MOST_READS, _MOST_BELOW = 500, 200  # MAX_COLD_READS, MAX_LOADED_NAMES_PER_WILDCARD
_POLLS = 12  # store calls in a second of an idle control, which reads the log and lists of the operator
_RESYNC_CALLS, _RESYNCS = 5, _LOADED / 90  # calls that read a loaded account again; most such accounts in a second
_PAUSE = 0.01  # seconds between visits, because one address may send 300 requests a second
_SETTLING = 12  # seconds until Envoy has counted what it has allocated

_Visit = tuple[str, float]  # status and seconds


@dataclass(frozen=True)
class _Memory:
    """The bytes of both programs, and the number of loaded names."""

    envoy: float
    control: float
    names: float

    def reduce(self, before: "_Memory", divisor: float = 1) -> "_Memory":
        """Return the difference, divided."""
        pairs = (self.envoy, before.envoy), (self.control, before.control), (self.names, before.names)
        return _Memory(*((after - earlier) / divisor for after, earlier in pairs))


def measure(_setting: Setting) -> Result:
    """Load the names, and flood the host in three ways."""
    os.environ.update(TABLE_NAME=_TABLE, KEY_ID=f"alias/{_TABLE}", TUNNEL_DOMAIN=_DOMAIN)
    data_stack.deploy(_TABLE, {})
    accounts = Accounts(_TABLE, _DOMAIN, prefix="e", create=create_edge)
    accounts.add(_LOADED + _COLD)
    tenant = Tenant("wild", _DOMAIN)
    tenant.upload(f"*.{_WILDCARD}")
    tenant.serve("*.wild")
    loaded = [accounts.find_name(number) for number in range(_LOADED)]
    cold = (accounts.find_name(_LOADED + number) for number in range(_COLD))
    with edge_host.running() as host:
        half, full = (_load(host, names) for names in (loaded[: _LOADED // 2], loaded[_LOADED // 2 :]))
        name = full.reduce(half, full.names - half.names)
        return Result(
            [
                *_flood(host, "unknown names", _make_unknown, loaded, islice(cold, _COLD // 2), name),
                *_flood(host, "labels below a wildcard", _make_label, loaded, cold, name),
                _at_most(_LOADED + _COLD + _MOST_BELOW, "loaded names: the others and 200", host.loaded()),
                *_ask(host, loaded),
            ]
        )


def _load(host: Host, names: list[str]) -> _Memory:
    """Load names, and visit each twice, so that both of Envoy's workers connect. Return the memory afterwards."""
    host.load(names)
    for name in [*names, *names]:
        _visit(host, name)
    return _measure_memory(host)


def _flood(
    host: Host, flood_name: str, make: Callable[[int], str], loaded: list[str], cold: Iterator[str], name: _Memory
) -> list[Row]:
    """Measure visits of loaded names, and of some cold ones, beside a flood. `name` is the memory for one name."""
    quiet = median(_visit(host, loaded_name)[1] for loaded_name in loaded[:300])
    memory, calls = _measure_memory(host), host.count_calls()
    visits, cold_visits = list[_Visit](), list[_Visit]()
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        flood = pool.submit(_run_flood, host.port, make)
        for turn in count():
            if flood.done():
                break
            visits.append(_visit(host, loaded[turn % _LOADED]))
            if turn % 40 == 0 and (other := next(cold, "")):
                cold_visits.append(_visit(host, other))
        sent, _ = flood.result()
    calls, after = host.count_calls() - calls, _measure_memory(host)
    more, beside = after.reduce(memory), f"{flood_name}: a loaded name beside them: before"
    return [
        results.at_least(
            0.9, f"{flood_name} in {_SECONDS} s: {_RATE} a second", sent, _RATE * _SECONDS, results.number
        ),
        _count_served(f"{flood_name}: visits of loaded names that are served", visits),
        results.at_most(_SLOWER, beside, median(seconds for _, seconds in visits), quiet, results.ms),
        _count_served(
            f"{flood_name}: cold names of other accounts that are served", cold_visits, must=make is _make_label
        ),
        _at_most(_count_expected_calls(), f"{flood_name}: store calls: the budget, polls and resyncs", calls),
        _limit_growth(f"{flood_name}: Envoy's additional memory", more.envoy - more.names * name.envoy),
        _limit_growth(f"{flood_name}: control's additional memory", more.control - more.names * name.control),
    ]


def _count_expected_calls() -> int:
    """Return the most calls in a flood. Its budget begins full, and its last names may wait some seconds."""
    return round((_SECONDS + 5) * (_MOST_READS + _POLLS + _RESYNCS * _RESYNC_CALLS))


def _measure_memory(host: Host) -> _Memory:
    time.sleep(_SETTLING)
    return _Memory(host.allocated(), host.control_memory, host.loaded())


def _count_served(figure: str, visits: list[_Visit], *, must: bool = True) -> Row:
    served, total = sum(status == "200" for status, _ in visits), len(visits)
    if must:
        return results.exactly(figure, results.number(served), results.number(total), served / total)
    return results.reported(figure, served, total, results.number)


def _limit_growth(figure: str, more: float) -> Row:
    return results.at_most(1, f"{figure}: 5 MiB", max(0.0, more), _GROWTH, results.mib)


def _run_flood(port: int, make: Callable[[int], str]) -> tuple[int, int]:
    return asyncio.run(hellos.flood(port, make, _RATE, _SECONDS))


def _ask(host: Host, loaded: list[str]) -> list[Row]:
    """Send requests for random hosts on kept connections."""
    calls, refused = host.count_calls(), 0
    for number, name in enumerate(loaded[:_CONNECTIONS]):  # visitors with addresses of their own, due to their limit
        statuses = _ask_on(host, name, f"127.0.1.{number + 1}", _HEADERS // _CONNECTIONS)
        refused += sum(status == "421" for status in statuses)
    return [
        results.exactly(
            "random Host headers with 421", results.number(refused), results.number(_HEADERS), refused / _HEADERS
        ),
        _at_most(_MOST_READS, "store calls meanwhile: those of an idle host", host.count_calls() - calls),
    ]


def _ask_on(host: Host, name: str, source: str, requests: int) -> Iterator[str]:
    """Yield the statuses of requests on one connection from an address."""
    context = ssl._create_unverified_context()
    with (
        socket.create_connection((HOST, host.port), 10, (source, 0)) as raw,
        context.wrap_socket(raw, server_hostname=name) as secure,
        secure.makefile("rb") as answers,
    ):
        secure.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(requests):
            secure.sendall(f"HEAD / HTTP/1.1\r\nhost: {secrets.token_hex(6)}.example\r\n\r\n".encode())
            yield answers.readline().decode().split(" ")[1]
            while answers.readline().strip():
                pass


def _make_unknown(_number: int) -> str:
    return hellos.pad(secrets.token_hex(6), f"{secrets.token_hex(3)}.example")


def _make_label(_number: int) -> str:
    return hellos.pad(secrets.token_hex(6), _WILDCARD)


def _visit(host: Host, name: str) -> _Visit:
    """Return the status of a visit and its seconds. Visits are rarer than the limit for one visitor."""
    time.sleep(_PAUSE)
    began = time.perf_counter()
    return host.visit(name), time.perf_counter() - began


def _at_most(maximum: int, figure: str, number: int) -> Row:
    return results.at_most(1, figure, number, maximum, results.number)
