"""Cold start of the API's function: a fresh process, from the package, until it has answered its first GET.

Against a process that imports Chalice and makes a boto3 client for DynamoDB, and does nothing with them.
"""

from bench import cold, requests
from bench.engines import Setting
from bench.results import Result

OURS = "import json, app; assert app.app(json.loads(sys.argv[2]), None)['statusCode'] == 200"
_CLIENT = "import chalice, boto3; client = boto3.client('dynamodb')"


def measure(setting: Setting) -> Result:
    id = requests.create("/backends/weighted", setting.token, {})["id"]
    event = requests.event("GET", f"/backends/weighted/{id}", setting.token, context=setting.context)
    return cold.measured("cold start: import chalice + client", 1.25, OURS, event, _CLIENT)
