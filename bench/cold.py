"""Cold starts: a fresh process, from the package, until its function has answered; against one that only imports."""

import json
from collections.abc import Mapping
from typing import Any

from bench import package, results, side_by_side
from bench.results import Result

ROUNDS = 15
_READ = "client.get_item(TableName='tunnel-edge', Key={'scope': {'S': '-'}, 'id': {'S': '-'}})"


def measured(figure: str, bound: float, ours: str, event: Mapping[str, Any], against: str) -> Result:
    """Compare code that answers the event (JSON in sys.argv[2]) with code that makes a `client`, also with one read."""
    with package.unpacked() as python:
        commands = [[*python, ours, json.dumps(event)], [*python, against], [*python, f"{against}; {_READ}"]]
        wall, cpu = side_by_side.fresh_processes(commands, ROUNDS)
    return Result(
        [
            results.at_most(bound, figure, wall[0], wall[1], results.ms),
            results.reported("… CPU", cpu[0], cpu[1], results.ms),
            results.reported("… with one read by the client", wall[0], wall[2], results.ms),
        ]
    )
