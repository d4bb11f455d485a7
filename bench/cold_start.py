"""Cold starts: a fresh process with only the Lambda package, until its function has answered once.

The API's function is compared with a process that imports Chalice and creates a boto3 client for DynamoDB, the
authorizer's function with a process that only creates the client.
"""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from bench import package, requests, results, side_by_side
from bench.engines import Setting
from bench.results import Result, Row

ROUNDS = 15
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
            *_rows("cold POST: import chalice + client", None, _API, write, f"import chalice; {_CLIENT}"),
            *_rows("cold authorizer: a client", 1.02, _AUTHORIZER, caller, _CLIENT),
        ]
    )


def _rows(figure: str, bound: float | None, ours: str, event: Mapping[str, Any], against: str) -> list[Row]:
    """Compare the time and CPU of code that answers the event in sys.argv[2] with other code."""
    with package.unpacked() as python:
        commands = [[*python, ours, json.dumps(event)], [*python, against]]
        wall, cpu = side_by_side.fresh_processes(commands, ROUNDS)
    compare = partial(results.at_most, bound) if bound else results.reported
    return [compare(name, made[0], made[1], results.ms) for name, made in ((figure, wall), ("… CPU", cpu))]
