"""One account with 1,200 routes, each with the largest user agent filter, beside the names of others."""

import os
import random
import time
from collections.abc import Sequence

from bench import edge_host, results
from bench.edge_accounts import Accounts, create_edge
from bench.edge_copies import copy_edge
from bench.edge_host import Host
from bench.edge_sizes import LARGEST
from bench.engines import Setting
from bench.results import Result, Row
from bench.tenants import Tenant
from infra.deploy import data_stack

_TABLE, _DOMAIN = "edge-share", "tunnels.localhost"
_EDGES, _ROUTES, _OTHERS, _ROUNDS = 12, 100, 60, 2
_SHARE, _MOST = 100 << 20, 1.2  # a tenth of MAX_LOADED_MIB
_SETTLING = 12  # seconds until Envoy has counted what it has allocated


def measure(_setting: Setting) -> Result:
    """Visit all routes of the account several times, and meanwhile the names of others."""
    os.environ.update(TABLE_NAME=_TABLE, KEY_ID=f"alias/{_TABLE}", TUNNEL_DOMAIN=_DOMAIN)
    data_stack.deploy(_TABLE, {})
    heavy = Tenant("heavy", _DOMAIN)
    served = heavy.serve("heavy")
    paths = [f"/{number}" for number in range(_ROUTES - 1)]
    for path in paths:
        heavy.add_route(served, path, user_agent_filter=LARGEST)
    labels = [f"h{number:03}" for number in range(_EDGES - 1)]
    copy_edge(_TABLE, served, labels)
    accounts = Accounts(_TABLE, _DOMAIN, prefix="e", create=create_edge)
    accounts.add(_OTHERS)
    names = [accounts.find_name(number) for number in range(_OTHERS)]
    with edge_host.running() as host:
        return Result(_visit(host, [served.name, *(f"{label}.{_DOMAIN}" for label in labels)], paths, names))


def _visit(host: Host, heavy: Sequence[str], paths: Sequence[str], other_names: Sequence[str]) -> list[Row]:
    loaded, cold = other_names[: _OTHERS // 2], iter(other_names[_OTHERS // 2 :])
    host.load(loaded)
    time.sleep(_SETTLING)
    before, expected, statuses, first = host.allocated(), host.estimated() / len(loaded), list[str](), list[str]()
    for _ in range(_ROUNDS):
        for name in heavy:
            answers = [host.visit(name, path=path, agent=_make_agent()) for path in paths]
            if refused := answers.count(""):
                raise RuntimeError(f"{refused} of {len(answers)} visits of {name} are not served.")
            statuses += map(host.visit, loaded)
            first.append(host.visit(next(cold)))
    time.sleep(_SETTLING)
    more = host.allocated() - before - len(first) * expected  # without the cold names of others
    figure = f"memory of {_EDGES * _ROUTES:,} visited routes of one account: a tenth of MAX_LOADED_MIB"
    return [
        results.at_most(_MOST, figure, more, _SHARE, results.mib),
        _require_served("loaded names of others beside them", statuses),
        _require_served("cold names of others beside them", first),
    ]


def _make_agent() -> str:
    """Return a User-Agent that makes RE2 remember as many states of a filter as it can."""
    return "".join(random.choices("ab", k=500))


def _require_served(figure: str, statuses: Sequence[str]) -> Row:
    served = statuses.count("200")
    return results.exactly(figure, f"{served:,}", f"{len(statuses):,}", served / len(statuses))
