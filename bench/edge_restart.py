"""A restart of control and Envoy beside thousands of routes of another account, compared with a light store."""

import os
from functools import partial

from bench import edge_host, results
from bench.edge_copies import copy_edge
from bench.engines import Setting
from bench.results import Result
from bench.side_by_side import medians_of
from bench.tenants import Tenant
from infra.deploy import data_stack

_DOMAIN = "tunnels.localhost"
_LIGHT, _HEAVY = "edge-restart-light", "edge-restart-heavy"
_EDGES, _ROUTES = 40, 100
_ROUNDS, _MOST = 5, 1.2


def measure(_setting: Setting) -> Result:
    """Measure the time from the start of both programs until a name of the small account is served."""
    names = {table: _create(table) for table in (_LIGHT, _HEAVY)}
    os.environ["TABLE_NAME"] = _HEAVY
    heavy = Tenant("heavy", _DOMAIN)
    served = heavy.serve("heavy")
    for number in range(_ROUTES - 1):
        heavy.add_route(served, f"/{number}")
    copy_edge(_HEAVY, served, (f"h{number:03}" for number in range(_EDGES - 1)))
    actions = [partial(_restart, table, names[table]) for table in (_HEAVY, _LIGHT)]
    heavy_time, light_time = medians_of(actions, _ROUNDS)
    figure = f"a name is back beside {_EDGES * _ROUTES:,} routes of another account: without these"
    return Result([results.at_most(_MOST, figure, heavy_time, light_time, results.ms)])


def _create(table: str) -> str:
    """Create a table with one edge of a small account. Return the edge's name."""
    os.environ.update(TABLE_NAME=table, KEY_ID=f"alias/{table}", TUNNEL_DOMAIN=_DOMAIN)
    data_stack.deploy(table, {})
    return Tenant("small", _DOMAIN).serve("small").name


def _restart(table: str, name: str) -> float:
    """Start control and Envoy without anything that an earlier process left. Return the seconds until a 200."""
    with edge_host.running(TABLE_NAME=table, KEY_ID=f"alias/{table}") as host:
        return host.ready + edge_host.measure_wait(lambda: host.visit(name) == "200")
