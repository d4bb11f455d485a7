"""An edge host beside 20,000 accounts: its size, and cold names."""

import os
import time

from bench import cold_names, edge_host, results
from bench.edge_accounts import Accounts, create_edge
from bench.edge_host import Host
from bench.engines import Setting
from bench.results import Result, Row
from infra.deploy import data_stack

_TABLE, _DOMAIN = "edge-names", "tunnels.localhost"
_ACCOUNTS, _VISITED = 20_000, 1_000
_SAMPLE, _LOADED = 300, 100  # cold names that are measured, and loaded names
_MOST_CALLS, _MOST_SECONDS, _MOST_ENVOY, _MOST_CONTROL, _MOST_NAME = 50, 3, 120 << 20, 150 << 20, 45 << 10
_SETTLING = 6  # seconds until Envoy has counted what it has allocated


def measure(_setting: Setting) -> Result:
    """Measure a host that no one visits, then cold names."""
    os.environ.update(TABLE_NAME=_TABLE, KEY_ID=f"alias/{_TABLE}", TUNNEL_DOMAIN=_DOMAIN)
    data_stack.deploy(_TABLE, {})
    visited = Accounts(_TABLE, _DOMAIN, prefix="e", create=create_edge)
    visited.add(_LOADED + 2 * _SAMPLE)
    tunnels = Accounts(_TABLE, _DOMAIN)
    tunnels.add(_VISITED)
    tunnels.add(_ACCOUNTS, has_keys=False)
    with edge_host.running(MAX_COLD_READS="5000") as host:
        return Result([*_measure_start(host), _measure_cold(host, visited), *_measure_many(host, tunnels)])


def _measure_start(host: Host) -> list[Row]:
    named = f"beside {_ACCOUNTS:,} accounts"
    time.sleep(_SETTLING)
    return [
        results.at_most(1, f"ready {named}: {_MOST_SECONDS} s", host.ready, _MOST_SECONDS, results.ms),
        results.at_most(1, f"store calls: {_MOST_CALLS}", host.calls_listening, _MOST_CALLS, results.number),
        results.at_most(1, f"memory of Envoy {named}: 120 MiB", host.envoy_memory, _MOST_ENVOY, results.mib),
        results.at_most(1, f"memory of control {named}: 150 MiB", host.control_memory, _MOST_CONTROL, results.mib),
    ]


def _measure_cold(host: Host, visited: Accounts) -> Row:
    """Measure cold names one after the other, beside loaded ones."""
    names = [visited.find_name(number) for number in range(_LOADED + 2 * _SAMPLE)]
    host.load(names[:_LOADED])
    return cold_names.compare(host, names[_LOADED:][:_SAMPLE], names[_LOADED + _SAMPLE :], _DOMAIN)


def _measure_many(host: Host, tunnels: Accounts) -> list[Row]:
    """Measure cold names of 16 visitors, and the memory of the names."""
    allocated, cpu = host.allocated(), host.control_cpu
    rate = cold_names.measure_rate(host, [tunnels.find_name(number) for number in range(_VISITED)])
    cpu = host.control_cpu - cpu
    time.sleep(_SETTLING)
    memory = (host.allocated() - allocated) / _VISITED
    return [
        results.reported("cold names of 16 visitors: 300 a second", rate, 300, results.per_second),
        results.reported("control's CPU for a cold name: 3.3 ms", cpu / _VISITED, 0.0033, results.ms),
        results.at_most(1, "Envoy's memory for a name: 45 KiB", memory, _MOST_NAME, results.kib),
    ]
