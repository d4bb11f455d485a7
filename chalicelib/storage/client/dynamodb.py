"""Requests to DynamoDB, with records of plain Python values. Errors of AWS become exceptions of this API.

In an expression, `#id` is the attribute `id`, and `:name` is a value that is passed with the expression.
"""

import os
import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from botocore.exceptions import ClientError

from chalicelib.storage.client import aws, call_counts
from chalicelib.storage.client.direct import CONDITION_FALSE

OLDEST_FORMAT = 2  # the value of `schema` in every record. Records of 1.x have no `schema`, and cannot be read

_NONE: Mapping[str, Any] = {}
_PAUSES = (0, 0.05, 0.1, 0.2)  # seconds before each attempt to read the keys that DynamoDB has left unprocessed
_TRIES = 24  # the most attempts of a transaction that conflicts with others

# Seconds. The pause before attempt N (from 0) of a transaction is random: at most N * _PAUSE, and at most _MAX_PAUSE.
_PAUSE, _MAX_PAUSE = 0.02, 0.2
_THROTTLED = ("ProvisionedThroughputExceeded", "ThrottlingError")  # cancellation codes of a throttled transaction
_CALLS = {"Put": "put_item", "Update": "update_item", "Delete": "delete_item"}


@dataclass(frozen=True)
class Condition:
    """A condition expression for a record, and its values. DynamoDB writes the record only if the condition is true."""

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Write:
    """A write of one record, alone or in a transaction.

    `failing` is the exception to raise if the write's condition is false. If `failing` is None, a false condition means
    that the record has changed. `counts` are numbers that the caller must add to the account's counts of names.
    """

    action: Literal["Put", "Update", "Delete", "ConditionCheck"]
    request: Mapping[str, Any]
    failing: Exception | None = None
    counts: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def put(record: Mapping[str, Any], condition: Condition | None = None, failing: Exception | None = None) -> "Write":
        """Return the write of a whole record."""
        request = {"TableName": table_name(), **_build_condition(condition)}
        return Write("Put", {**request, "Item": encode({**record, "schema": OLDEST_FORMAT})}, failing)

    @staticmethod
    def update(
        scope: str,
        id: str,
        condition: Condition,
        *,
        sets: Mapping[str, Any] = _NONE,
        adds: Mapping[str, int | Set[str]] = _NONE,
        removes: Mapping[str, Set[str]] = _NONE,
        defaults: Mapping[str, Any] = _NONE,
        failing: Exception | None = None,
    ) -> "Write":
        """Return the write that changes a record.

        Each argument maps names of attributes to values. `sets` replaces values, and the value None removes the
        attribute. In `sets`, "body.name" is the entry `name` of the map `body`. `adds` adds to numbers or to sets of
        strings. `removes` removes strings from sets. `defaults` sets a value only if the record lacks the attribute.
        """
        present = {name: value for name, value in sets.items() if value is not None}
        clauses = {
            "SET": [
                *(f"{_path(name)} = :set{index}" for index, name in enumerate(present)),
                *(f"#{name} = if_not_exists(#{name}, :default_{name})" for name in defaults),
            ],
            "REMOVE": [_path(name) for name, value in sets.items() if value is None],
            "ADD": [f"#{name} :add_{name}" for name in adds],
            "DELETE": [f"#{name} :remove_{name}" for name in removes],
        }
        values = {
            **{f"set{index}": value for index, value in enumerate(present.values())},
            **{f"add_{name}": value for name, value in adds.items()},
            **{f"remove_{name}": value for name, value in removes.items()},
            **{f"default_{name}": value for name, value in defaults.items()},
        }
        update = " ".join(f"{verb} {', '.join(paths)}" for verb, paths in clauses.items() if paths)
        conditional = {"ConditionExpression": condition.text} if condition.text else {}
        request = build_expressions({**condition.values, **values}, UpdateExpression=update, **conditional)
        return Write("Update", {**_key(scope, id), **request}, failing)

    @staticmethod
    def delete(scope: str, id: str, condition: Condition | None = None, failing: Exception | None = None) -> "Write":
        """Return the write that removes a record."""
        return Write("Delete", {**_key(scope, id), **_build_condition(condition)}, failing)

    @staticmethod
    def check(scope: str, id: str, condition: Condition, failing: Exception | None = None) -> "Write":
        """Return a write that changes nothing, but makes its transaction fail if the condition is false."""
        return Write("ConditionCheck", {**_key(scope, id), **_build_condition(condition)}, failing)

    def and_check(self, check: "Write") -> "Write":
        """Return this update with the additional condition of a check. Both must be for the same record."""
        request, extra = self.request, check.request
        both = {name: {**request.get(name, {}), **extra[name]} for name in extra if name.startswith("Expression")}
        text = f"({request['ConditionExpression']}) AND ({extra['ConditionExpression']})"
        return replace(self, request={**request, **both, "ConditionExpression": text})


_table: ContextVar[str] = ContextVar("table")


class ConditionFailed(Exception):
    """A write did not happen, because its condition was false."""


class TransactionFailed(Exception):
    """No write of a transaction happened. `indexes` are the positions of the writes with false conditions.

    If `was_retried` is true, an earlier attempt without an answer may have succeeded.
    """

    def __init__(self, indexes: list[int], was_retried: bool) -> None:
        super().__init__()
        self.indexes = indexes
        self.was_retried = was_retried


class Throttled(aws.Unavailable):
    """DynamoDB throttled writes of records with the partition keys `scopes`, in the table or in an index."""

    def __init__(self, scopes: list[str]) -> None:
        super().__init__("ThrottlingException")
        self.scopes = scopes


def get(scope: str, id: str) -> dict[str, Any] | None:
    """Return the record with a primary key, or None. The read is consistent. Raises aws.Unavailable."""
    item = aws.call("dynamodb", "get_item", **_key(scope, id), ConsistentRead=True).get("Item")
    return decode(item) if item else None


def get_each(*keys: tuple[str, str]) -> list[dict[str, Any] | None]:
    """Return the records with some primary keys in one consistent call. Raises aws.Unavailable."""
    encoded_keys = [encode({"scope": scope, "id": id}) for scope, id in dict.fromkeys(keys)]
    request_items: Mapping[str, Any] = {table_name(): {"Keys": encoded_keys, "ConsistentRead": True}}
    records_by_key: dict[tuple[str, str], dict[str, Any]] = {}
    for pause in _PAUSES:
        if pause:  # no sleep(0): it would give the CPU to another thread, and so delay the first attempt
            time.sleep(pause)
        answer = aws.call("dynamodb", "batch_get_item", RequestItems=request_items)
        records = map(decode, answer["Responses"].get(table_name(), ()))
        records_by_key |= {(record["scope"], record["id"]): record for record in records}
        request_items = answer.get("UnprocessedKeys", {})
        if not request_items:
            return [records_by_key.get(key) for key in keys]
    raise aws.Unavailable("UnprocessedKeys")


def do(write: Write) -> dict[str, Any]:
    """Do one write. Return the updated record of an update. Raises ConditionFailed, aws.Unavailable."""
    return_values = {"ReturnValues": "ALL_NEW"} if write.action == "Update" else {}
    try:
        answer = aws.call("dynamodb", _CALLS[write.action], **write.request, **return_values)
    except ClientError as error:
        if error.response["Error"]["Code"] != CONDITION_FALSE:
            raise
        raise ConditionFailed from None
    return decode(answer.get("Attributes", {}))


def transact(writes: Sequence[Write]) -> None:
    """Do all writes or none. Raises TransactionFailed, aws.Unavailable.

    A transaction that conflicts with others is tried 24 times, with random pauses that grow: two seconds in all.
    """
    for number in range(_TRIES):
        if number:
            time.sleep(random.uniform(0, min(number * _PAUSE, _MAX_PAUSE)))
        if _try_transaction(writes):
            return
    raise aws.Unavailable("TransactionConflict")


def _try_transaction(writes: Sequence[Write]) -> bool:
    """Do all writes or none. Return False if they conflict with another transaction."""
    actions = [{write.action: write.request} for write in writes]
    try:
        aws.call("dynamodb", "transact_write_items", TransactItems=actions)
    except ClientError as error:
        response: Mapping[str, Any] = error.response
        reasons = [reason.get("Code", "None") for reason in response.get("CancellationReasons", ())]
        if failed := [index for index, reason in enumerate(reasons) if reason == "ConditionalCheckFailed"]:
            raise TransactionFailed(failed, response["ResponseMetadata"].get("RetryAttempts", 0) > 0) from None
        if throttled := [_scope(writes[index]) for index, reason in enumerate(reasons) if reason in _THROTTLED]:
            raise call_counts.throttle(Throttled(throttled)) from None
        if {*reasons} <= {"None", "TransactionConflict"} and "TransactionConflict" in reasons:
            return call_counts.conflict()
        if reasons and "ValidationError" not in reasons:
            raise aws.Unavailable("TransactionCanceledException") from None
        raise
    return True


@contextmanager
def use_table(name: str) -> Iterator[None]:
    """Read and write the named table, instead of TABLE_NAME, in a `with` block."""
    before = _table.set(name)
    try:
        yield
    finally:
        _table.reset(before)


def table_name() -> str:
    return _table.get(os.environ.get("TABLE_NAME", "tunnel-edge"))


def encode_value(value: Any) -> dict[str, Any]:
    """Return a value in DynamoDB's format, for example {"S": "text"}. Raises TypeError if DynamoDB cannot store it."""
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": value}
        case int():
            return {"N": str(value)}
        case bytes():
            return {"B": value}
        case dict():
            return {"M": encode(value)}
        case list() | tuple():
            return {"L": [encode_value(entry) for entry in value]}
        case set() | frozenset():
            return {"SS": sorted(value)}
    raise TypeError(f"{type(value).__name__} is not a type that DynamoDB can store")


def encode(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record in DynamoDB's format."""
    return {name: encode_value(value) for name, value in record.items()}


def decode(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain values of a record that `encode` encoded."""
    return {name: _decode_value(attribute) for name, attribute in record.items()}


def _scope(write: Write) -> str:
    return str((write.request.get("Key") or write.request["Item"])["scope"]["S"])


def _path(name: str) -> str:
    return ".".join(f"#{part}" for part in name.split("."))


def _build_condition(condition: Condition | None) -> dict[str, Any]:
    return build_expressions(condition.values, ConditionExpression=condition.text) if condition else {}


def build_expressions(values: Mapping[str, Any], **expressions: str) -> dict[str, Any]:
    """Return a request's parameters for expressions, with the names and values of attributes that they contain."""
    names = sorted(set(re.findall(r"#(\w+)", " ".join(expressions.values()))))
    attribute_values = {f":{name}": encode_value(value) for name, value in values.items()}
    return {
        **expressions,
        "ExpressionAttributeNames": {f"#{name}": name for name in names},
        **({"ExpressionAttributeValues": attribute_values} if attribute_values else {}),
    }


def _key(scope: str, id: str) -> dict[str, Any]:
    return {"TableName": table_name(), "Key": {"scope": {"S": scope}, "id": {"S": id}}}


def _decode_value(attribute: Mapping[str, Any]) -> Any:
    ((kind, value),) = attribute.items()
    match kind:
        case "S" | "BOOL" | "B":
            return value
        case "N":
            return int(value) if value.lstrip("-").isdigit() else value
        case "M":
            return decode(value)
        case "L":
            return [_decode_value(entry) for entry in value]
        case "SS":
            return set(value)
        case "NULL":
            return None
    return value  # a type that this API never writes stays encoded, so decoding the record raises MalformedRecord
