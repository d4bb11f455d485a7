"""Cold start of the API's function: a fresh process, from the package, until it has answered its first GET.

Against a process that imports Chalice and makes a boto3 client for DynamoDB, and does nothing with them.
"""

import json

from bench import package, requests, results, side_by_side
from bench.engines import Setting
from bench.results import Result

ROUNDS = 15
OURS = "import json, app; assert app.app(json.loads(sys.argv[2]), None)['statusCode'] == 200"
_CLIENT = "import chalice, boto3; client = boto3.client('dynamodb')"
_READ = f"{_CLIENT}; client.get_item(TableName='tunnel-edge', Key={{'scope': {{'S': '-'}}, 'id': {{'S': '-'}}}})"


def measure(setting: Setting) -> Result:
    id = requests.create("/backends/weighted", setting.token, {})["id"]
    event = requests.event("GET", f"/backends/weighted/{id}", setting.token, context=setting.context)
    with package.unpacked() as python:
        commands = [[*python, OURS, json.dumps(event)], [*python, _CLIENT], [*python, _READ]]
        wall, cpu = side_by_side.fresh_processes(commands, ROUNDS)
    return Result(
        [
            results.at_most(1.25, "cold start: import chalice + client", wall[0], wall[1], results.ms),
            results.reported("… CPU", cpu[0], cpu[1], results.ms),
            results.reported("… with one read by the client", wall[0], wall[2], results.ms),
        ]
    )
