"""Visits of cold names of an edge host: their rate, and their time compared with later visits and the store."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from bench import results
from bench.edge_host import Host
from bench.results import Row
from edge.control.names.name_resolver import NameResolver

_VISITORS = 16
_SLOWER = 3  # how much slower than a later visit a cold name may be


def measure_rate(host: Host, names: Sequence[str]) -> float:
    """Return the names of tunnels that 16 visitors, each with an address, visit in a second.

    Raises RuntimeError if a name is not served. The bench has no tunnel clients, so a served name answers 502.
    """
    sources = [f"127.0.2.{number % _VISITORS + 1}" for number in range(len(names))]
    began = time.monotonic()
    with ThreadPoolExecutor(_VISITORS) as pool:
        statuses = list(pool.map(host.visit, names, sources))
    took = time.monotonic() - began
    if refused := [name for name, status in zip(names, statuses, strict=True) if status != "502"]:
        raise RuntimeError(f"{len(refused)} of {len(names)} names are not served, for example {refused[0]}.")
    return len(names) / took


def compare(host: Host, names: Sequence[str], other_names: Sequence[str], domain: str) -> Row:
    """Return a row that compares cold names of edges with later visits and with reading the records of others."""
    beside = f"beside {host.loaded():,} loaded names"
    cold, later = _time(host.visit, names), _time(host.visit, names)
    store = _time(lambda name: _read(name, domain), other_names)
    figure = f"a cold name {beside}: three later visits and the store"
    return results.at_most(1, figure, cold, _SLOWER * later + store, results.ms)


def _read(name: str, domain: str) -> None:
    """Read the records that control reads for a cold name."""
    resolver = NameResolver(domain)
    records = resolver.read(resolver.find_account(name), name, None)
    for id in records.certificates:
        resolver.key_pair(id, records)


def _time(visit: Callable[[str], object], names: Sequence[str]) -> float:
    """Return the median seconds of a visit. Raises RuntimeError if a name is not served."""
    times = []
    for name in names:
        began = time.perf_counter()
        if visit(name) not in ("200", None):
            raise RuntimeError(f"{name} is not served.")
        times.append(time.perf_counter() - began)
    return median(times)
