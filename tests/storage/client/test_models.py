"""A client's address, made without botocore's rules for endpoints, is the one that they make."""

import json
import subprocess
import sys

from tests.conftest import ROOT

SETTINGS = [
    {"AWS_DEFAULT_REGION": "eu-central-1"},
    {"AWS_DEFAULT_REGION": "cn-north-1"},
    {"AWS_DEFAULT_REGION": "us-gov-west-1"},
    {"AWS_DEFAULT_REGION": "us-gov-west-1", "AWS_USE_FIPS_ENDPOINT": "true"},
    {"AWS_DEFAULT_REGION": "eu-future-7"},
    {"AWS_DEFAULT_REGION": "eu-west-1", "AWS_USE_DUALSTACK_ENDPOINT": "true"},
    {"AWS_DEFAULT_REGION": "us-east-1", "AWS_USE_FIPS_ENDPOINT": "true"},
    {"AWS_DEFAULT_REGION": "eu-west-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:4566"},
]
CASES = [*((service, settings) for service in ("dynamodb", "kms") for settings in SETTINGS), ("sts", SETTINGS[0])]

# Each case in a process of its own, which a fork makes after the imports.
SCRIPT = """
import json, os, sys
from botocore.config import Config
from botocore.session import get_session
from chalicelib.storage.client import aws, models

CALLS = {"dynamodb": "list_tables", "kms": "list_keys", "sts": "get_caller_identity"}

def ours(service):
    if service != "sts":
        return aws.client(service)
    models.install(session := get_session())
    return session.create_client(service)

def by_rules(service):
    return get_session().create_client(service, config=Config(account_id_endpoint_mode="disabled"))

def address(client, call):
    asked = []
    client.meta.events.register("before-send", lambda request, **_: asked.append(request.url) or 1 / 0)
    client.meta.events.register("needs-retry", lambda **_: None)
    try:
        getattr(client, call)()
    except ZeroDivisionError:
        return asked

for service, settings in json.loads(sys.argv[1]):
    if os.fork() == 0:
        os.environ.pop("AWS_ENDPOINT_URL", None)
        os.environ.update(settings, AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b")
        print(json.dumps([address(make(service), CALLS[service]) for make in (ours, by_rules)]), flush=True)
        os._exit(0)
    os.wait()
"""


def test_an_address_is_that_of_botocores_rules() -> None:
    command = [sys.executable, "-c", SCRIPT, json.dumps(CASES)]
    process = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    pairs = [json.loads(line) for line in process.stdout.splitlines()]
    assert len(pairs) == len(CASES), process.stderr
    for case, (addresses, by_rules) in zip(CASES, pairs, strict=True):
        assert len(addresses) == 1, case
        assert addresses == by_rules, case
    assert pairs[-1][0] == ["https://sts.eu-central-1.amazonaws.com/"]
