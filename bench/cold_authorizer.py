"""Cold start of the authorizer's function: a fresh process, from the package, until it has let a caller in.

Against a process that makes a boto3 client for DynamoDB, and does nothing with it.
"""

import json

from bench import package, requests, results, side_by_side
from bench.engines import Setting
from bench.results import Result

ROUNDS = 15
OURS = "import json; from chalicelib.authorizer import authorize; assert authorize(json.loads(sys.argv[2]), None)"
_CLIENT = "import boto3; client = boto3.client('dynamodb')"
_READ = f"{_CLIENT}; client.get_item(TableName='tunnel-edge', Key={{'scope': {{'S': '-'}}, 'id': {{'S': '-'}}}})"


def measure(setting: Setting) -> Result:
    event = {"headers": requests.headers(setting.token)}
    with package.unpacked() as python:
        commands = [[*python, OURS, json.dumps(event)], [*python, _CLIENT], [*python, _READ]]
        wall, cpu = side_by_side.fresh_processes(commands, ROUNDS)
    return Result(
        [
            results.at_most(1.15, "cold authorizer: a client", wall[0], wall[1], results.ms),
            results.reported("… CPU", cpu[0], cpu[1], results.ms),
            results.reported("… with one read by the client", wall[0], wall[2], results.ms),
        ]
    )
