"""Cold starts: a fresh process with only the Lambda package, until its function has answered once.

The API's function is compared with a process that imports Chalice and creates a boto3 client for DynamoDB, the
authorizer's function with a process that only creates the client. The bounds of the instructions are 1.02 of those
of commit 98babd06, which were 0.952 and 0.803 of the same processes.
"""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from bench import instructions, package, requests, results, side_by_side
from bench.engines import Setting
from bench.results import Result, Row

ROUNDS = 15
_GET_BEFORE, _AUTHORIZER_BEFORE = 0.952, 0.803  # of commit 98babd06
_API = "import json, app; assert app.app(json.loads(sys.argv[2]), None)['statusCode'] < 300"
_AUTHORIZER = (
    "import json; from chalicelib.authorizer import authorize; assert authorize(json.loads(sys.argv[2]), None)"
)
_CLIENT = "import boto3; client = boto3.client('dynamodb')"


def measure(setting: Setting) -> Result:
    id = requests.create("/backends/weighted", setting.token, {})["id"]
    read = requests.event("GET", f"/backends/weighted/{id}", setting.token, context=setting.context)
    caller = {"headers": requests.headers(setting.token)}
    write = requests.event("POST", "/backends/weighted", setting.token, {}, setting.context)
    return Result(
        [
            *_rows("cold start: import chalice + client", 1.1, _API, read, f"import chalice; {_CLIENT}"),
            _row_of_instructions(1.02 * _GET_BEFORE, _API, read, f"import chalice; {_CLIENT}"),
            *_rows("cold POST: import chalice + client", None, _API, write, f"import chalice; {_CLIENT}"),
            *_rows("cold authorizer: a client", 1.02, _AUTHORIZER, caller, _CLIENT),
            _row_of_instructions(1.02 * _AUTHORIZER_BEFORE, _AUTHORIZER, caller, _CLIENT),
        ]
    )


def _rows(figure: str, bound: float | None, ours: str, event: Mapping[str, Any], against: str) -> list[Row]:
    """Compare the time and CPU of code that answers the event in sys.argv[2] with other code."""
    with package.unpacked() as python:
        commands = [[*python, ours, json.dumps(event)], [*python, against]]
        wall, cpu = side_by_side.fresh_processes(commands, ROUNDS)
    compare = partial(results.at_most, bound) if bound else results.reported
    return [compare(name, times[0], times[1], results.ms) for name, times in ((figure, wall), ("… CPU", cpu))]


def _row_of_instructions(bound: float, ours: str, event: Mapping[str, Any], against: str) -> Row:
    """Compare the instructions of code that answers the event in sys.argv[2] with other code."""
    with package.unpacked() as python:
        commands = [[*python, ours, json.dumps(event)], [*python, against]]
        side_by_side.fresh_processes(commands, 1)  # stores the compiled code of libraries that lack it
        counts = [instructions.count(command) for command in commands]
    return results.at_most(round(bound, 3), "… instructions", counts[0], counts[1], results.millions)
