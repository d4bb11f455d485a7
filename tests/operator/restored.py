"""The API's table, restored to an earlier time, beside its later state."""

from typing import Any

import boto3

TABLE, LATER = "tunnel-edge", "tunnel-edge-later"


class Tables:
    """The API's table, and what it was before it was restored to an earlier time."""

    def __init__(self) -> None:
        self._dynamodb: Any = boto3.client("dynamodb")
        self._earlier: list[Any] = []

    def remember(self) -> None:
        """Note the time that is restored later."""
        self._earlier = self._records(TABLE)

    def restore(self) -> None:
        """Put the API's table back as it was; keep the one of now under another name."""
        described = self._dynamodb.describe_table(TableName=TABLE)["Table"]
        key_names = {key["AttributeName"] for key in described["KeySchema"]}  # those of the indexes are not
        attributes = [
            attribute for attribute in described["AttributeDefinitions"] if attribute["AttributeName"] in key_names
        ]
        shape = {"KeySchema": described["KeySchema"], "AttributeDefinitions": attributes}
        self._dynamodb.create_table(TableName=LATER, BillingMode="PAY_PER_REQUEST", **shape)
        self._fill(LATER, self._records(TABLE))
        self._fill(TABLE, self._earlier)

    def swap(self) -> None:
        records, later_records = self._records(TABLE), self._records(LATER)
        self._fill(TABLE, later_records)
        self._fill(LATER, records)

    def drop(self) -> None:
        if LATER in self._dynamodb.list_tables()["TableNames"]:
            self._dynamodb.delete_table(TableName=LATER)

    def _records(self, table: str) -> list[Any]:
        return list(self._dynamodb.scan(TableName=table)["Items"])

    def _fill(self, table: str, records: list[Any]) -> None:
        """Have it hold these records and no others."""
        for record in self._records(table):
            self._dynamodb.delete_item(TableName=table, Key={name: record[name] for name in ("scope", "id")})
        for record in records:
            self._dynamodb.put_item(TableName=table, Item=record)
