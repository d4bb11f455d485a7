"""The one table (DynamoDB): items under a scope and an id, and claims to values unique in the whole service.

A scope is one account's items of one kind, so a list is one Query and a read one GetItem, whatever the size.
Every change is one conditional update or one transaction; an item is never read, altered and written back.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from botocore.exceptions import ClientError

from chalicelib import clock
from chalicelib.storage import aws, marshal

_KEY = {"#scope": "scope", "#id": "id"}
_UNEXPIRED = "(attribute_not_exists(#expires) OR #expires > :now)"


@dataclass(frozen=True)
class Claim:
    """A value that one item holds for itself in the whole service, and facts to read together with it."""

    kind: str
    value: str
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def scope(self) -> str:
        return f"{self.kind}#{self.value}"


@dataclass(frozen=True)
class Item:
    """What is stored under a scope and an id.

    `body` is what the API shows, `sealed` what only the vault can read, `claims` what the item holds for itself,
    `expires` the Unix second at which the item is gone.
    """

    scope: str
    id: str
    body: dict[str, Any]
    sealed: dict[str, bytes] = field(default_factory=dict, repr=False)
    claims: tuple[Claim, ...] = ()
    expires: int | None = None


class Taken(Exception):
    """Another item holds the claim."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(claim.kind)
        self.claim = claim


def create(*items: Item) -> None:
    """Write the items and their claims, all or nothing. Raises Taken, aws.Unavailable.

    Writing the same items again is harmless, so a retry after a lost answer finds its own work and is content.
    """
    writes = [write for item in items for write in _writes(item)]
    with aws.reaching():
        if len(writes) == 1:
            _dynamodb().put_item(**writes[0]["Put"])
            return
        try:
            _dynamodb().transact_write_items(TransactItems=writes)
        except ClientError as error:
            if taken := _taken(items, _reasons(error)):
                raise Taken(taken) from None
            raise


def read(scope: str, id: str) -> Item | None:
    """The item, or None when there is none or it has expired. Raises aws.Unavailable."""
    record = _get(scope, id)
    item = _item(record) if record else None
    return item if item and _is_live(item) else None


def read_claim(kind: str, value: str) -> dict[str, Any] | None:
    """The facts of the claim to a value, or None when nothing claims it. Raises aws.Unavailable."""
    record = _get(Claim(kind, value).scope, "claim")
    return marshal.plain(record)["body"] if record else None


def newest(scope: str, *, before: str | None = None, count: int | None = None) -> list[Item]:
    """At most `count` items of a scope (all without it), newest first, older than the id `before`.

    What has expired does not count: fewer than `count` means that there are no more. Their `sealed` stays in the
    store. Raises aws.Unavailable.
    """
    found: list[Item] = []
    for page in _pages(scope, before, count):
        found += page
        if count is not None and len(found) >= count:
            return found[:count]
    return found


def change(scope: str, id: str, fields: Mapping[str, Any]) -> Item | None:
    """Set fields of an item's body, at least one; the item as it is then, or None when there is none.

    Raises aws.Unavailable.
    """
    names = {f"#field{i}": name for i, name in enumerate(fields)}
    values = {f":value{i}": marshal.attribute(value) for i, value in enumerate(fields.values())}
    sets = ", ".join(f"#body.{name} = {value}" for name, value in zip(names, values, strict=True))
    try:
        with aws.reaching():
            answer = _dynamodb().update_item(
                **_at(scope, id),
                UpdateExpression=f"SET {sets}",
                ConditionExpression=f"attribute_exists(#id) AND {_UNEXPIRED}",
                ExpressionAttributeNames={"#body": "body", "#id": "id", "#expires": "expires", **names},
                ExpressionAttributeValues={":now": marshal.attribute(_now()), **values},
                ReturnValues="ALL_NEW",
            )
    except ClientError as error:
        if _code(error) == "ConditionalCheckFailedException":
            return None
        raise
    return _item(answer["Attributes"])


def renew(scope: str, id: str, *, expires: int) -> bool:
    """Set the second at which an item is gone; False when it is gone already. Raises aws.Unavailable."""
    try:
        with aws.reaching():
            _dynamodb().update_item(
                **_at(scope, id),
                UpdateExpression="SET #expires = :expires",
                ConditionExpression="attribute_exists(#id) AND #expires > :now",
                ExpressionAttributeNames={"#id": "id", "#expires": "expires"},
                ExpressionAttributeValues={":now": marshal.attribute(_now()), ":expires": marshal.attribute(expires)},
            )
    except ClientError as error:
        if _code(error) == "ConditionalCheckFailedException":
            return False
        raise
    return True


def delete(scope: str, id: str) -> bool:
    """Remove an item and release its claims, all or nothing; False when there is none. Raises aws.Unavailable."""
    try:
        with aws.reaching():
            _dynamodb().delete_item(
                **_at(scope, id),
                ConditionExpression=f"attribute_exists(#id) AND attribute_not_exists(#claims) AND {_UNEXPIRED}",
                ExpressionAttributeNames={"#id": "id", "#claims": "claims", "#expires": "expires"},
                ExpressionAttributeValues={":now": marshal.attribute(_now())},
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
    except ClientError as error:
        if _code(error) != "ConditionalCheckFailedException":
            raise
        held = error.response.get("Item")
        return bool(held) and _is_live(_item(held)) and _delete_with_claims(_item(held))
    return True


def _delete_with_claims(item: Item) -> bool:
    deletions = [
        {
            "Delete": {
                **_at(item.scope, item.id),
                "ConditionExpression": "attribute_exists(#id)",
                "ExpressionAttributeNames": {"#id": "id"},
            }
        },
        *(
            {
                "Delete": {
                    **_at(claim.scope, "claim"),
                    "ConditionExpression": "#holder = :holder",
                    "ExpressionAttributeNames": {"#holder": "holder"},
                    "ExpressionAttributeValues": {":holder": marshal.attribute(item.id)},
                }
            }
            for claim in item.claims
        ),
    ]
    try:
        with aws.reaching():
            _dynamodb().transact_write_items(TransactItems=deletions)
    except ClientError as error:
        if "ConditionalCheckFailed" in _reasons(error):
            return False
        raise
    return True


def _get(scope: str, id: str) -> Mapping[str, Any] | None:
    with aws.reaching():
        found: Mapping[str, Any] | None = _dynamodb().get_item(**_at(scope, id), ConsistentRead=True).get("Item")
    return found


def _pages(scope: str, before: str | None, count: int | None) -> Iterator[list[Item]]:
    query: dict[str, Any] = {
        "TableName": _table_name(),
        "ConsistentRead": True,
        "ScanIndexForward": False,
        "KeyConditionExpression": "#scope = :scope" + (" AND #id < :before" if before else ""),
        "FilterExpression": _UNEXPIRED,
        "ProjectionExpression": "#scope, #id, #body, #expires",
        "ExpressionAttributeNames": {**_KEY, "#body": "body", "#expires": "expires"},
        "ExpressionAttributeValues": {
            ":scope": marshal.attribute(scope),
            ":now": marshal.attribute(_now()),
            **({":before": marshal.attribute(before)} if before else {}),
        },
        **({"Limit": count} if count else {}),
    }
    while True:
        with aws.reaching():
            answer = _dynamodb().query(**query)
        yield [_item(found) for found in answer["Items"]]
        if "LastEvaluatedKey" not in answer:
            return
        query["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


def _writes(item: Item) -> Iterator[dict[str, Any]]:
    record: dict[str, Any] = {"scope": item.scope, "id": item.id, "body": item.body}
    if item.sealed:
        record["sealed"] = item.sealed
    if item.claims:
        record["claims"] = [[claim.kind, claim.value] for claim in item.claims]
    if item.expires is not None:
        record["expires"] = item.expires
    yield {"Put": {"TableName": _table_name(), "Item": marshal.attributes(record)}}
    for claim in item.claims:
        holder = {"scope": claim.scope, "id": "claim", "body": dict(claim.facts), "holder": item.id}
        yield {
            "Put": {
                "TableName": _table_name(),
                "Item": marshal.attributes(holder),
                "ConditionExpression": "attribute_not_exists(#id) OR #holder = :holder",
                "ExpressionAttributeNames": {"#id": "id", "#holder": "holder"},
                "ExpressionAttributeValues": {":holder": marshal.attribute(item.id)},
            }
        }


def _item(record: Mapping[str, Any]) -> Item:
    plain = marshal.plain(record)
    claims = tuple(Claim(kind, value) for kind, value in plain.pop("claims", ()))
    return Item(**plain, claims=claims)


def _is_live(item: Item) -> bool:
    return item.expires is None or item.expires > _now()


def _reasons(error: ClientError) -> list[str]:
    """Why each part of a transaction was refused, in order; [] when the error is another one.

    Raises aws.Unavailable when the transaction only met another one and none of its conditions failed.
    """
    response: Mapping[str, Any] = error.response
    reasons = [reason.get("Code", "None") for reason in response.get("CancellationReasons", ())]
    if reasons and "ConditionalCheckFailed" not in reasons and "ValidationError" not in reasons:
        raise aws.Unavailable("TransactionCanceledException")
    return reasons


def _taken(items: Iterable[Item], reasons: list[str]) -> Claim | None:
    """The first claim among those of the items that another holds."""
    parts = [part for item in items for part in (None, *item.claims)]  # None stands for the item itself
    return next(
        (part for part, reason in zip(parts, reasons, strict=False) if reason == "ConditionalCheckFailed"), None
    )


def _code(error: ClientError) -> str:
    return str(error.response["Error"]["Code"])


def _now() -> int:
    return int(clock.now().timestamp())


def _at(scope: str, id: str) -> dict[str, Any]:
    return {"TableName": _table_name(), "Key": marshal.attributes({"scope": scope, "id": id})}


@cache
def _table_name() -> str:
    return os.environ.get("TABLE_NAME", "tunnel-edge")


def _dynamodb() -> Any:
    return aws.client("dynamodb")
