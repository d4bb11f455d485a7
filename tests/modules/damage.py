"""Changes stored modules of routes past the API: damaged secrets, and fields that are missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chalicelib.storage.client import aws

_DAMAGED = {"B": b"damaged"}


def replace_secret(module: str, *keys: str, sealed: Any = _DAMAGED) -> Any:
    """Replace a sealed secret of a route's module, by default by one that cannot be decrypted. Return the former one.

    `module` is the path of the module, and `keys` are the names that lead to the secret in its record.
    """
    with _edit_record(module, *keys[:-1]) as fields:
        former, fields[keys[-1]] = fields[keys[-1]], sealed
    return former


def remove(module: str, *keys: str) -> None:
    """Remove a field of a route's module, which a former version did not know."""
    with _edit_record(module, *keys[:-1]) as fields:
        del fields[keys[-1]]


@contextmanager
def _edit_record(module: str, *keys: str) -> Iterator[dict[str, Any]]:
    """Yield an object of a module's record, and store the record again."""
    table, (*_, route, name) = aws.client("dynamodb"), module.split("/")
    pages = table.get_paginator("scan").paginate(TableName="tunnel-edge")
    (record,) = [
        item for page in pages for item in page["Items"] if item["id"]["S"].endswith(route) and "parts" in item
    ]
    fields = record["parts"]["M"][name]["M"]
    for key in keys:
        fields = fields[key]["M"]
    yield fields
    table.put_item(TableName="tunnel-edge", Item=record)
