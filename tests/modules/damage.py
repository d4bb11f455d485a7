"""Changes stored modules of routes past the API: damaged secrets, and fields that are missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chalicelib.storage.client import aws

_DAMAGED = {"B": b"damaged"}


def replace_secret(module: str, *place: str, sealed: Any = _DAMAGED) -> Any:
    """Replace a sealed secret of a route's module, by default by one that cannot be decrypted. Return the former one.

    `module` is the path of the module, and `place` are the names that lead to the secret in its record.
    """
    with _stored(module, *place[:-1]) as holder:
        former, holder[place[-1]] = holder[place[-1]], sealed
    return former


def remove(module: str, *place: str) -> None:
    """Remove a field of a route's module, which a former version did not know."""
    with _stored(module, *place[:-1]) as holder:
        del holder[place[-1]]


@contextmanager
def _stored(module: str, *place: str) -> Iterator[dict[str, Any]]:
    """Yield an object of a module's record, and store the record again."""
    table, (*_, route, name) = aws.client("dynamodb"), module.split("/")
    pages = table.get_paginator("scan").paginate(TableName="tunnel-edge")
    (record,) = [it for page in pages for it in page["Items"] if it["id"]["S"].endswith(route) and "parts" in it]
    found = record["parts"]["M"][name]["M"]
    for key in place:
        found = found[key]["M"]
    yield found
    table.put_item(TableName="tunnel-edge", Item=record)
