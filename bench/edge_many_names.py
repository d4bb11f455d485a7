"""Measures an edge host with 10,000 loaded names: the time to load further names, and its memory."""

import os
import time
from collections.abc import Sequence

from bench import cold_names, edge_host, results
from bench.edge_accounts import Accounts, create_edge
from bench.edge_host import Host
from bench.engines import Setting
from bench.results import Result, Row
from infra.deploy import data_stack

_TABLE, _DOMAIN = "edge-many-names", "tunnels.localhost"
_LOADED, _TIMED, _LEFT = 10_000, 1_000, 100  # names that are loaded; of which cold ones are timed; in use at the end
_SAMPLE = 300  # cold names that are visited one after the other
_PERIOD, _DURATION = 240, 1  # NAME_PERIOD and MAX_CONNECTION_DURATION, short so that unloading takes minutes
_UNLOADING = 2 * _PERIOD + _DURATION + 180  # seconds in which unused names must have gone
_MOST_ENVOY, _MOST_LEFT, _LEAST_RATE = 700 << 20, 1.3, 0.7
_SETTLING, _MOST_SETTLING = 12, 180  # seconds between two reads of Envoy's memory, and until it has freed what it can


def measure(_setting: Setting) -> Result:
    """Load all names, measure cold ones at the start and at the end, and wait until most names are unloaded."""
    os.environ.update(TABLE_NAME=_TABLE, KEY_ID=f"alias/{_TABLE}", TUNNEL_DOMAIN=_DOMAIN)
    data_stack.deploy(_TABLE, {})
    edges = Accounts(_TABLE, _DOMAIN, prefix="e", create=create_edge)
    edges.add(2 * _SAMPLE)
    tunnels = Accounts(_TABLE, _DOMAIN)
    tunnels.add(_LOADED + _TIMED)
    names = [tunnels.find_name(number) for number in range(_LOADED + _TIMED)]
    least = _measure_few(names[:_LEFT])
    settings = {"MAX_COLD_READS": "5000", "NAME_PERIOD": str(_PERIOD), "MAX_CONNECTION_DURATION": str(_DURATION)}
    with edge_host.running(**settings) as host:
        first = cold_names.measure_rate(host, names[:_TIMED])
        cold_names.measure_rate(host, names[_TIMED:_LOADED])
        edge_host.wait_until(lambda: host.loaded() >= _LOADED)
        envoy = host.envoy_memory
        last = cold_names.measure_rate(host, names[_LOADED:])
        edge_names = [edges.find_name(number) for number in range(2 * _SAMPLE)]
        cold = cold_names.compare(host, edge_names[:_SAMPLE], edge_names[_SAMPLE:], _DOMAIN)
        return Result([*_rows(envoy, first, last), cold, *_unload(host, names[:_LEFT], least)])


def _rows(envoy: float, first: float, last: float) -> Sequence[Row]:
    beside = f"beside {_LOADED:,} loaded names"
    return [
        results.at_most(1, f"memory of Envoy with {_LOADED:,} loaded names: 700 MiB", envoy, _MOST_ENVOY, results.mib),
        results.at_least(_LEAST_RATE, f"cold names of 16 visitors {beside}: without", last, first, results.per_second),
    ]


def _measure_few(names: Sequence[str]) -> float:
    """Return the bytes that Envoy allocates on a host on which only these names are visited."""
    with edge_host.running() as host:
        cold_names.measure_rate(host, names)
        return _settle(host)


def _unload(host: Host, names: Sequence[str], least: float) -> list[Row]:
    """Visit a few names until all others are unloaded."""
    began = time.monotonic()
    while host.loaded() > _LEFT and time.monotonic() < began + _UNLOADING:
        cold_names.measure_rate(host, names)
        time.sleep(_PERIOD / 10)
    loaded, allocated = host.loaded(), _settle(host)
    return [
        results.exactly("loaded names after unloading", f"{loaded:,}", f"{_LEFT:,}", loaded / _LEFT),
        results.at_most(
            _MOST_LEFT, f"allocated after unloading: only {_LEFT} ever visited", allocated, least, results.mib
        ),
    ]


def _settle(host: Host) -> float:
    """Return the bytes that Envoy allocates as soon as they no longer fall by more than 1 %."""
    before, end = float("inf"), time.monotonic() + _MOST_SETTLING
    while time.monotonic() < end:
        time.sleep(_SETTLING)
        allocated = host.allocated()
        if allocated > 0.99 * before:
            return min(allocated, before)
        before = allocated
    return before
