"""Creation of the table and the KMS key without CloudFormation, as infra/deploy/data.yaml defines them.

TABLE_NAME and KEY_ID are their names.
"""

from typing import Any

from botocore.exceptions import ClientError

from chalicelib.storage import vault
from chalicelib.storage.client import aws, dynamodb


def create_table() -> bool:
    """Create the table and wait until it is active. Return False if it exists. Raises aws.AwsError."""
    client, name = aws.client("dynamodb"), dynamodb.table_name()
    try:
        with aws.translate_errors():
            client.create_table(TableName=name, **_TABLE)
    except ClientError as error:
        if error.response["Error"]["Code"] == "ResourceInUseException":
            return False
        raise
    with aws.translate_errors():
        client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 120})
        client.update_time_to_live(
            TableName=name, TimeToLiveSpecification={"AttributeName": "expires", "Enabled": True}
        )
        client.update_continuous_backups(
            TableName=name, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
        )
    return True


def create_key() -> bool:
    """Create the key and its alias, with KMS's default policy. Return False if it exists. Raises aws.AwsError."""
    client, alias = aws.client("kms"), vault.key_id()
    if _has_key(client, alias):
        return False
    with aws.translate_errors():
        key = client.create_key(Description=_ABOUT)["KeyMetadata"]["KeyId"]
        client.enable_key_rotation(KeyId=key)
        client.create_alias(AliasName=alias, TargetKeyId=key)
    return True


def _has_key(client: Any, alias: str) -> bool:
    try:
        with aws.translate_errors():
            client.describe_key(KeyId=alias)
    except aws.Misconfigured as error:
        if error.code == "NotFoundException":
            return False
        raise
    return True


_ABOUT = "Seals the private keys that the tunnel and edge management API holds."
_TABLE = {
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [
        {"AttributeName": name, "AttributeType": "S"} for name in ("scope", "id", "indexed", "acted")
    ],
    "KeySchema": [{"AttributeName": "scope", "KeyType": "HASH"}, {"AttributeName": "id", "KeyType": "RANGE"}],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": index,
            "KeySchema": [{"AttributeName": name, "KeyType": "HASH"}, {"AttributeName": "id", "KeyType": "RANGE"}],
            "Projection": {"ProjectionType": "ALL"},
        }
        for index, name in (("by-resource", "indexed"), ("by-actor", "acted"))
    ],
    "SSESpecification": {"Enabled": True, "SSEType": "KMS"},
    "DeletionProtectionEnabled": True,
}
