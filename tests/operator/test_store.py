"""`store create`, and what is printed when the store cannot be used."""

import os
import subprocess
import sys

import pytest

from chalicelib.storage.client import aws
from infra.deploy import data_stack
from infra.deploy.templates import parse_template
from tests.conftest import ROOT, free_port
from tests.operator.commands import Output, create_account, expect_failure, run_without_errors


def test_a_store_out_of_reach_is_one_sentence_and_exit_status_1() -> None:
    port = free_port()
    process = subprocess.run(
        [sys.executable, "-m", "chalicelib", "accounts", "list"],
        cwd=ROOT,
        env={**os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr == (
        "The store cannot be used (EndpointConnectionError): it does not answer or is busy. The configured store is: "
        "table tunnel-edge, "
        f"key_id alias/tunnel-edge, region us-east-1, endpoint http://127.0.0.1:{port}.\n"
    )


def test_a_store_is_created_as_the_stack_creates_it(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABLE_NAME", "another")
    monkeypatch.setenv("KEY_ID", "alias/another")
    assert run_without_errors(capsys, "store", "create") == [
        "table another was created",
        "key alias/another was created",
    ]
    template = parse_template(data_stack.TEMPLATE.read_text())["Resources"]["Table"]["Properties"]
    table = aws.client("dynamodb").describe_table(TableName="another")["Table"]
    field_names = ("AttributeDefinitions", "KeySchema", "DeletionProtectionEnabled")
    assert [table[field] for field in field_names] == [template[field] for field in field_names]
    assert table["BillingModeSummary"]["BillingMode"] == template["BillingMode"]
    indexes, table_indexes = template["GlobalSecondaryIndexes"], table["GlobalSecondaryIndexes"]
    assert all(index.items() <= table_index.items() for index, table_index in zip(indexes, table_indexes, strict=True))
    store = aws.client("dynamodb")
    assert store.describe_table(TableName="another")["Table"]["SSEDescription"]["SSEType"] == "KMS"
    ttl = store.describe_time_to_live(TableName="another")["TimeToLiveDescription"]
    assert ttl == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires"}
    backups = store.describe_continuous_backups(TableName="another")["ContinuousBackupsDescription"]
    assert backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"
    key = aws.client("kms").describe_key(KeyId="alias/another")["KeyMetadata"]["KeyId"]
    assert aws.client("kms").get_key_rotation_status(KeyId=key)["KeyRotationEnabled"] is True
    sentence = "The table another and the key alias/another exist already: nothing was created."
    assert expect_failure("store", "create") == sentence
    create_account(capsys)
    monkeypatch.setenv("KEY_ID", "alias/third")
    assert run_without_errors(capsys, "store", "create") == [
        "table another is there already",
        "key alias/third was created",
    ]


def test_a_key_without_an_alias_is_not_created(monkeypatch: pytest.MonkeyPatch) -> None:
    key_id = "1234abcd-12ab-34cd-56ef-1234567890ab"
    monkeypatch.setenv("KEY_ID", key_id)
    sentence = f"KEY_ID is {key_id}: to create a key, set it to an alias, such as alias/tunnel-edge."
    assert expect_failure("store", "create") == sentence


def test_a_store_that_is_not_there_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABLE_NAME", "nowhere")
    assert expect_failure("accounts", "list") == (
        "The store cannot be used (ResourceNotFoundException): the table does not exist: "
        "'python -m chalicelib store create' creates it. "
        "The configured store is: table nowhere, key_id alias/tunnel-edge, region us-east-1, endpoint AWS."
    )
