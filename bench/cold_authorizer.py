"""Cold start of the authorizer's function: a fresh process, from the package, until it has let a caller in.

Against a process that makes a boto3 client for DynamoDB, and does nothing with it.
"""

from bench import cold, requests
from bench.engines import Setting
from bench.results import Result

OURS = "import json; from chalicelib.authorizer import authorize; assert authorize(json.loads(sys.argv[2]), None)"
_CLIENT = "import boto3; client = boto3.client('dynamodb')"


def measure(setting: Setting) -> Result:
    event = {"headers": requests.headers(setting.token)}
    return cold.measured("cold authorizer: a client", 1.15, OURS, event, _CLIENT)
