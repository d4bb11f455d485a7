"""What AWS answers instead of doing its work: busy or out of reach, used wrongly, or an answer to the question."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.storage.client.services import Service


@pytest.mark.parametrize("setting", ["AWS_ENDPOINT_URL=http://127.0.0.1:4999", "LOCALSTACK_HOST=127.0.0.1:4999"])
def test_the_endpoint_is_a_setting(setting: str) -> None:
    script = "from chalicelib.storage.client import aws; print(aws.client('dynamodb').meta.endpoint_url)"
    command = ["env", setting, sys.executable, "-c", script]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=30).stdout
    assert output == "http://127.0.0.1:4999\n"


@pytest.mark.parametrize(
    ("setting", "output"),
    [
        ("AWS_LAMBDA_FUNCTION_NAME=api", "https://dynamodb.eu-west-1.amazonaws.com"),
        ("NOTHING=", "http://later"),
    ],
)
def test_the_client_of_a_function_is_made_when_it_is_imported(setting: str, output: str) -> None:
    script = (
        "import os; from chalicelib.storage.client import aws; os.environ['AWS_ENDPOINT_URL'] = 'http://later';"
        "os.environ['AWS_DEFAULT_REGION'] = 'eu-west-1'; print(aws.client('dynamodb').meta.endpoint_url)"
    )
    command = ["env", "-u", "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION=eu-west-1", *setting.split(), sys.executable]
    process = subprocess.run([*command, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True, timeout=30)
    assert process.stdout == f"{output}\n"


@pytest.mark.parametrize(("setting", "operations"), [("AWS_LAMBDA_FUNCTION_NAME=api", []), ("NOTHING=", ["GetItem"])])
def test_only_a_function_reads_without_botocore(setting: str, operations: list[str]) -> None:
    item = b'{"Item": {"id": {"S": "a"}}}'
    service = Service([b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(item), item)])
    script = (
        "from chalicelib.storage.client import aws, dynamodb\n"
        "sent = []\n"
        "aws.client('dynamodb').meta.events.register('before-send', lambda **_: sent.append('GetItem'))\n"
        "print(dynamodb.get('s', 'a'), sent)"
    )
    keys = ["AWS_ACCESS_KEY_ID=one", "AWS_SECRET_ACCESS_KEY=secret", "AWS_DEFAULT_REGION=eu-west-1"]
    address = f"AWS_ENDPOINT_URL=http://127.0.0.1:{service.port}"
    command = ["env", *keys, address, setting, sys.executable, "-c", script]
    process = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=30)
    service.close()
    assert process.stdout == f"{{'id': 'a'}} {operations}\n"
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("https://dynamodb.eu-west-1.amazonaws.com", b"dynamodb.eu-west-1.amazonaws.com"),
        ("https://Store.example:443", b"store.example"),
        ("http://somebody:secret@[::1]:4566", b"[::1]:4566"),
    ],
)
def test_a_request_names_the_host_that_its_signature_covers(address: str, host: bytes) -> None:
    script = (
        "from chalicelib.storage.client import aws\n"
        "def told(request, **_): print(request.headers['Host'], request.headers['Authorization']); raise SystemExit\n"
        "aws.client('dynamodb').meta.events.register('before-send', told)\n"
        "aws.call('dynamodb', 'list_tables')"
    )
    keys = ["AWS_ACCESS_KEY_ID=one", "AWS_SECRET_ACCESS_KEY=secret", "AWS_DEFAULT_REGION=eu-west-1"]
    command = ["env", *keys, f"AWS_ENDPOINT_URL={address}", sys.executable, "-c", script]
    process = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=30)
    assert process.stdout.startswith(f"{host!r} b'AWS4-HMAC-SHA256 ")
    assert "SignedHeaders=content-type;host;x-amz-date;x-amz-target," in process.stdout


def test_a_function_without_a_region_says_so_when_it_is_called() -> None:
    script = (
        "from chalicelib.storage.client import aws\n"
        "try: aws.call('dynamodb', 'list_tables')\n"
        "except aws.Misconfigured as error: print(error)"
    )
    without = ["-u", "AWS_DEFAULT_REGION", "-u", "AWS_REGION", "AWS_CONFIG_FILE=/dev/null"]
    command = ["env", *without, "AWS_LAMBDA_FUNCTION_NAME=api", sys.executable, "-c", script]
    process = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=30)
    assert process.stdout == "NoRegionError\n"
