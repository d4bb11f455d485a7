"""A table in memory that answers the calls of DynamoDB's data plane, as moto does, in a tenth of the CPU time.

It has the expressions that `chalicelib.storage` writes.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any
from zlib import crc32

from botocore.exceptions import ClientError

from tests.memory_expressions import INVALID, Attribute, Record, check, fail, is_true, project, update

_INDEXES = {"by-resource": "indexed", "by-actor": "acted"}  # the partition key of each index
_MAX_PAGE, _MAX_RECORD = 1_000_000, 405_000  # bytes, as in moto
_MAX_WRITES = 100  # in a transaction
_FALSE = "ConditionalCheckFailedException"


class MemoryTable:
    """Records by partition key and id. A record is replaced as a whole, so that answers can share its parts."""

    def __init__(self, records: Mapping[str, Mapping[str, Record]]) -> None:
        self.records = {scope: {**partition} for scope, partition in records.items()}

    def get_item(self, **request: Any) -> dict[str, Any]:
        record = self._find(request["Key"])
        return {} if record is None else {"Item": record}

    def batch_get_item(self, *, RequestItems: Mapping[str, Any], **_: object) -> dict[str, Any]:
        ((name, request),) = RequestItems.items()
        return {"Responses": {name: [record for key in request["Keys"] if (record := self._find(key))]}}

    def query(self, **request: Any) -> dict[str, Any]:
        check(request)
        condition, _, condition_of_id = request["KeyConditionExpression"].partition(" AND ")
        values, is_reversed = request["ExpressionAttributeValues"], not request.get("ScanIndexForward", True)
        name, _, value = condition.partition(" = ")
        scope, index = values[value]["S"], request.get("IndexName")
        assert name == f"#{_INDEXES[index] if index else 'scope'}"
        partition = self._list_indexed(name[1:], scope) if index else self.records.get(scope, {}).values()
        records = sorted(partition, key=_id_and_scope, reverse=is_reversed)
        selected = [record for record in records if is_true(condition_of_id, record, values)]
        return _answer(selected, request, _id_and_scope)

    def scan(self, **request: Any) -> dict[str, Any]:
        check(request)
        number, total = request.get("Segment", 0), request.get("TotalSegments", 1)
        scopes = [scope for scope in sorted(self.records) if crc32(scope.encode()) % total == number]
        return _answer([record for scope in scopes for _, record in sorted(self.records[scope].items())], request, _key)

    def put_item(self, **request: Any) -> dict[str, Any]:
        return self._write("Put", request)

    def update_item(self, **request: Any) -> dict[str, Any]:
        return self._write("Update", request)

    def delete_item(self, **request: Any) -> dict[str, Any]:
        return self._write("Delete", request)

    def transact_write_items(self, *, TransactItems: list[Mapping[str, Any]], **_: object) -> dict[str, Any]:
        writes = [write for each in TransactItems for write in each.items()]
        if len({_key(_key_of(*write)) for write in writes}) < len(writes) or len(writes) > _MAX_WRITES:
            fail(INVALID)
        changes, reasons = list[tuple[Record, Record | None]](), list[str]()
        for action, request in writes:
            try:
                changes.append(self._prepare(action, request))
                reasons.append("None")
            except ClientError as error:
                if error.response["Error"]["Code"] != _FALSE:
                    raise
                reasons.append("ConditionalCheckFailed")
        if len(changes) < len(reasons):
            details = {"CancellationReasons": [{"Code": reason} for reason in reasons], "ResponseMetadata": {}}
            fail("TransactionCanceledException", **details)
        for change in changes:
            self._store(*change)
        return {}

    def _list_indexed(self, attribute: str, value: str) -> list[Record]:
        partitions = self.records.values()
        key = {"S": value}
        return [record for records in partitions for record in records.values() if record.get(attribute) == key]

    def _find(self, key: Record) -> Record | None:
        return self.records.get(key["scope"]["S"], {}).get(key["id"]["S"])

    def _write(self, action: str, request: Mapping[str, Any]) -> dict[str, Any]:
        key, record = self._prepare(action, request)
        self._store(key, record)
        return {"Attributes": record} if action == "Update" else {}

    def _prepare(self, action: str, request: Mapping[str, Any]) -> tuple[Record, Record | None]:
        """Return the key of a write, and the record after it. Raises ClientError if the condition is false."""
        check(request)
        key, values = _key_of(action, request), request.get("ExpressionAttributeValues", {})
        record = self._find(key)
        if not is_true(request.get("ConditionExpression", ""), record or {}, values):
            fail(_FALSE)
        if action == "Update":
            written: Record | None = update(record or key, request["UpdateExpression"], values)
        else:
            written = {"Put": key, "Delete": None, "ConditionCheck": record}[action]
        if written is None or written is record:
            return key, written
        if (stored := _Stored(written)).size > _MAX_RECORD:
            fail(INVALID)
        return key, stored

    def _store(self, key: Record, record: Record | None) -> None:
        scope, id = _key(key)
        if record is not None:
            self.records.setdefault(scope, {})[id] = record
        elif scope in self.records:
            self.records[scope].pop(id, None)


def _key(record: Record) -> tuple[str, str]:
    return record["scope"]["S"], record["id"]["S"]


def _id_and_scope(record: Record) -> tuple[str, str]:
    return record["id"]["S"], record["scope"]["S"]


def _key_of(action: str, request: Mapping[str, Any]) -> Record:
    key: Record = request["Item" if action == "Put" else "Key"]
    return key


class _Stored(dict[str, Attribute]):
    """A record with its size in bytes."""

    @cached_property
    def size(self) -> int:
        return _size(self)


def _size(attributes: Mapping[str, Attribute]) -> int:
    return sum(len(name.encode()) + _size_of(attribute) for name, attribute in attributes.items())


def _size_of(attribute: Attribute) -> int:
    ((kind, value),) = attribute.items()
    match kind:
        case "M":
            return _size(value)
        case "L":
            return sum(map(_size_of, value))
        case "SS":
            return sum(len(text.encode()) for text in value)
        case "S" | "B":
            return len(value.encode() if kind == "S" else value)
    return len(value) if kind == "N" else 1


def _answer(
    records: Iterable[Record], request: Mapping[str, Any], sorted_by: Callable[[Record], tuple[str, str]]
) -> dict[str, Any]:
    """Return a page of sorted records, which begins after ExclusiveStartKey."""
    if after := request.get("ExclusiveStartKey"):
        start, is_reversed = sorted_by(after), not request.get("ScanIndexForward", True)
        keys = [(record, sorted_by(record)) for record in records]
        records = [record for record, key in keys if (key < start if is_reversed else key > start)]
    page, size, last, limit = list[Record](), 0, None, request.get("Limit")
    for record in records:
        size += record.size if isinstance(record, _Stored) else _size(record)
        if len(page) == limit or (size > _MAX_PAGE and page):
            last = page[-1]
            break
        page.append(record)
    condition, values = request.get("FilterExpression", ""), request.get("ExpressionAttributeValues", {})
    answer: dict[str, Any] = {"Items": [record for record in page if is_true(condition, record, values)]}
    answer |= {"Count": len(answer["Items"]), "ScannedCount": len(page)}
    if projection := request.get("ProjectionExpression"):
        answer["Items"] = [project(record, projection.split(", ")) for record in answer["Items"]]
    if last:
        names = ["scope", "id", *([_INDEXES[request["IndexName"]]] if "IndexName" in request else [])]
        answer["LastEvaluatedKey"] = {name: last[name] for name in names}
    return answer
