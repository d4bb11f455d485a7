"""Visits of cold names of an edge host: their rate, and their time compared with later visits and the store."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from bench import results
from bench.edge_host import Host
from bench.results import Row
from edge.control.names.name_resolver import NameResolver

_VISITORS, _TRIES, _LEAST_SERVED = 16, 5, 0.9
_SLOWER = 3  # how much slower than a later visit a cold name may be


def measure_rate(host: Host, names: Sequence[str]) -> float:
    """Return the names of tunnels that 16 visitors, each with an address, visit in a second.

    A name is visited again if the store was slow. Raises RuntimeError if a name is not served.
    """
    began, left = time.monotonic(), list(names)
    for _ in range(_TRIES):
        with ThreadPoolExecutor(_VISITORS) as pool:
            sources = [f"127.0.2.{number % _VISITORS + 1}" for number in range(len(left))]
            answers = zip(left, pool.map(host.visit, left, sources), strict=True)
            left = [name for name, answer in answers if answer != "502"]
        if not left:
            break
        time.sleep(1)  # until control has read the log, which shows whether the store answers again
    if left:
        raise RuntimeError(f"{len(left)} names are not served, for example {left[0]}.")
    return len(names) / (time.monotonic() - began)


def compare(host: Host, names: Sequence[str], others: Sequence[str], domain: str) -> Row:
    """Return a row that compares cold names of edges with later visits and with reading the records of others."""
    beside = f"beside {host.loaded():,} loaded names"
    cold, later = _time(host.visit, names), _time(host.visit, names)
    store = _time(lambda name: _read(name, domain), others)
    figure = f"a cold name {beside}: three later visits and the store"
    return results.at_most(1, figure, cold, _SLOWER * later + store, results.ms)


def _read(name: str, domain: str) -> None:
    """Read the records that control reads for a cold name."""
    resolver = NameResolver(domain)
    records = resolver.read(resolver.find_account(name), name, None)
    for id in records.certificates:
        resolver.key_pair(id, records)


def _time(visit: Callable[[str], object], names: Sequence[str]) -> float:
    """Return the median seconds of a successful visit. Raises RuntimeError if a tenth of the names is not served."""
    times = []
    for name in names:
        began = time.perf_counter()
        if visit(name) in ("200", None):
            times.append(time.perf_counter() - began)
    if len(times) < _LEAST_SERVED * len(names):
        raise RuntimeError(f"{len(names) - len(times)} of {len(names)} names are not served.")
    return median(times)
