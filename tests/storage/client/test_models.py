"""A client's address, made without botocore's rules for endpoints, is the one that they make."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT

OURS = "from chalicelib.storage.client import aws; client = aws.client(sys.argv[1])"
STS = (
    "from botocore.session import get_session; from chalicelib.storage.client import models;"
    "session = get_session(); models.install(session); client = session.create_client(sys.argv[1])"
)
RULES = (
    "from botocore.session import get_session; from botocore.config import Config;"
    "client = get_session().create_client(sys.argv[1], config=Config(account_id_endpoint_mode='disabled'))"
)
ASK = (
    "import sys; {}; asked = [];"
    "client.meta.events.register('before-send', lambda request, **_: asked.append(request.url) or 1 / 0);"
    "client.meta.events.register('needs-retry', lambda **_: None);"
    "call = {{'dynamodb': 'list_tables', 'kms': 'list_keys', 'sts': 'get_caller_identity'}}[sys.argv[1]]\n"
    "try: getattr(client, call)()\n"
    "except ZeroDivisionError: print(*asked)"
)


@pytest.mark.parametrize("service", ["dynamodb", "kms"])
@pytest.mark.parametrize(
    "settings",
    [
        ["AWS_DEFAULT_REGION=eu-central-1"],
        ["AWS_DEFAULT_REGION=cn-north-1"],
        ["AWS_DEFAULT_REGION=us-gov-west-1"],
        ["AWS_DEFAULT_REGION=us-gov-west-1", "AWS_USE_FIPS_ENDPOINT=true"],
        ["AWS_DEFAULT_REGION=eu-future-7"],
        ["AWS_DEFAULT_REGION=eu-west-1", "AWS_USE_DUALSTACK_ENDPOINT=true"],
        ["AWS_DEFAULT_REGION=us-east-1", "AWS_USE_FIPS_ENDPOINT=true"],
        ["AWS_DEFAULT_REGION=eu-west-1", "AWS_ENDPOINT_URL=http://127.0.0.1:4566"],
    ],
)
def test_an_address_is_that_of_botocores_rules(service: str, settings: list[str]) -> None:
    assert address(OURS, service, settings) == address(RULES, service, settings) != ""


def test_a_role_is_assumed_where_botocore_assumes_it() -> None:
    settings = ["AWS_DEFAULT_REGION=eu-west-1"]
    assert address(STS, "sts", settings) == address(RULES, "sts", settings) == "https://sts.eu-west-1.amazonaws.com/\n"


def address(client: str, service: str, settings: list[str]) -> str:
    keys = ["AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b"]
    command = ["env", "-u", "AWS_ENDPOINT_URL", *keys, *settings, sys.executable, "-c", ASK.format(client), service]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=30).stdout
