"""The names of accounts, by a scan of the table that uses no code of the service, and what tests change of them."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from chalicelib import clock
from chalicelib.storage.client import aws, dynamodb
from tests.transports import Client

TABLE = "tunnel-edge"


def read_counts(client: Client) -> dict[str, int]:
    """Return what GET /me says of the names of a client's account."""
    counts: dict[str, int] = client.get("/me").json["names"]
    return counts


def count_names(client: Client) -> dict[str, int]:
    """Return what GET /me should say."""
    counts = Counter[str]()
    for record in _records():
        kind = record["scope"].partition("#")[0]
        if kind == "tunnel_name" and record.get("account") == client.account:
            in_cooldown = not record.get("sharers") and record.get("rests", 0) > clock.seconds()
            counts["held" if record.get("sharers") else "cooldown" if in_cooldown else "free"] += 1
        elif record["scope"] == f"{client.account}#/reserved_domains":
            counts["held"] += not any(kind == "tunnel_name" for kind, _ in record["claims"])
    return {"held": counts["held"], "cooldown": counts["cooldown"], "allowed": 1000}


def end_cooldowns(client: Client) -> None:
    """End the cooldowns of an account, in the store alone, as if their time had passed."""
    past = clock.seconds() - 1
    for record in _records():
        if record["scope"].startswith("tunnel_name#") and record.get("account") == client.account and "rests" in record:
            _put({**record, "rests": past})
        elif record["scope"] == f"{client.account}#/names/cooldown":
            aws.client("dynamodb").delete_item(TableName=TABLE, Key=_key(record))
            past -= 1
            _put({**record, "id": f"{past:011}"})


def count_more(client: Client, **counts: int) -> None:
    """Add to the counts of an account, in the store alone."""
    key = {"scope": f"{client.account}#/names", "id": "count"}
    item = aws.client("dynamodb").get_item(TableName=TABLE, Key=dynamodb.encode(key)).get("Item")
    record: dict[str, Any] = dynamodb.decode(item) if item else {**key, "revision": 1, "schema": 2}
    _put({**record, **{name: record.get(name, 0) + more for name, more in counts.items()}})


def _records() -> Iterator[dict[str, Any]]:
    for page in aws.client("dynamodb").get_paginator("scan").paginate(TableName=TABLE, ConsistentRead=True):
        yield from map(dynamodb.decode, page["Items"])


def _put(record: dict[str, Any]) -> None:
    aws.client("dynamodb").put_item(TableName=TABLE, Item=dynamodb.encode(record))


def _key(record: dict[str, Any]) -> dict[str, Any]:
    return dynamodb.encode({name: record[name] for name in ("scope", "id")})
