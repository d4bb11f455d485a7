"""Damages sealed secrets in the store."""

from typing import Any

from chalicelib.storage.client import aws

_DAMAGED = {"B": b"damaged"}


def replace_secret(module: str, *place: str, sealed: Any = _DAMAGED) -> Any:
    """Replace a sealed secret of a route's module, by default by one that cannot be decrypted. Return the former one.

    `module` is the path of the module, and `place` are the names that lead to the secret in its record.
    """
    table, (*_, route, name) = aws.client("dynamodb"), module.split("/")
    pages = table.get_paginator("scan").paginate(TableName="tunnel-edge")
    (record,) = [it for page in pages for it in page["Items"] if it["id"]["S"].endswith(route) and "parts" in it]
    holder, *rest = record["parts"]["M"][name]["M"], *place
    for key in rest[:-1]:
        holder = holder[key]["M"]
    former, holder[rest[-1]] = holder[rest[-1]], sealed
    table.put_item(TableName="tunnel-edge", Item=record)
    return former
