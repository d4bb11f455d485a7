"""A table in memory with the methods of DynamoDB's client, for tests with very many calls.

It has what reads and writes of single accounts need: the expressions of `dynamodb`, but no indexes and no scans.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

from botocore.exceptions import ClientError

Attribute = Mapping[str, Any]  # for example {"S": "text"}
Record = Mapping[str, Attribute]

_VERBS = re.compile(r"(SET|REMOVE|ADD|DELETE) (.*?)(?= (?:SET|REMOVE|ADD|DELETE) |$)")
_COMMA = re.compile(r", (?![^(]*\))")  # but not between the arguments of a function
_WORDS = {"AND": "and", "OR": "or", "NOT": "not", "=": "=="}
_FALSE, _INVALID = "ConditionalCheckFailedException", "ValidationException"


class MemoryTable:
    """Records by partition key and id. A record is replaced as a whole, so that answers can share its parts."""

    def __init__(self, records: Mapping[str, Mapping[str, Record]]) -> None:
        self._records = {scope: {**partition} for scope, partition in records.items()}

    def get_item(self, *, Key: Record, **_: object) -> dict[str, Any]:
        record = self._find(Key)
        return {} if record is None else {"Item": record}

    def batch_get_item(self, *, RequestItems: Mapping[str, Any]) -> dict[str, Any]:
        ((name, request),) = RequestItems.items()
        return {"Responses": {name: [record for key in request["Keys"] if (record := self._find(key))]}}

    def query(self, **request: Any) -> dict[str, Any]:
        assert not request.keys() & {"IndexName", "ExclusiveStartKey"}
        condition, _, condition_of_id = request["KeyConditionExpression"].partition(" AND ")
        values, limit = request["ExpressionAttributeValues"], request.get("Limit")
        partition = self._records.get(values[condition.removeprefix("#scope = ")]["S"], {})
        ids = sorted(partition, reverse=not request["ScanIndexForward"])
        selected = [record for id in ids if _is_true(condition_of_id, record := partition[id], values)]
        records = [
            record for record in selected[:limit] if _is_true(request.get("FilterExpression", ""), record, values)
        ]
        if names := request.get("ProjectionExpression", "").replace("#", ""):
            records = [{name: record[name] for name in names.split(", ") if name in record} for record in records]
        assert len(selected) <= (limit or len(selected)), "a second page"
        return {"Items": records}

    def put_item(self, **request: Any) -> dict[str, Any]:
        return self._write("Put", request)

    def update_item(self, **request: Any) -> dict[str, Any]:
        return self._write("Update", request)

    def delete_item(self, **request: Any) -> dict[str, Any]:
        return self._write("Delete", request)

    def transact_write_items(self, *, TransactItems: list[Mapping[str, Any]]) -> dict[str, Any]:
        changes, reasons = list[tuple[Record, Record | None]](), list[str]()
        for ((action, request),) in (write.items() for write in TransactItems):
            try:
                changes.append(self._prepare(action, request))
                reasons.append("None")
            except ClientError as error:
                if error.response["Error"]["Code"] != _FALSE:
                    raise
                reasons.append("ConditionalCheckFailed")
        if len(changes) < len(reasons):
            details = {"CancellationReasons": [{"Code": reason} for reason in reasons], "ResponseMetadata": {}}
            _fail("TransactionCanceledException", **details)
        for change in changes:
            self._store(*change)
        return {}

    def _find(self, key: Record) -> Record | None:
        return self._records.get(key["scope"]["S"], {}).get(key["id"]["S"])

    def _write(self, action: str, request: Mapping[str, Any]) -> dict[str, Any]:
        key, record = self._prepare(action, request)
        self._store(key, record)
        return {"Attributes": record} if action == "Update" else {}

    def _prepare(self, action: str, request: Mapping[str, Any]) -> tuple[Record, Record | None]:
        """Return the key of a write, and the record after it. Raises ClientError if the condition is false."""
        key, values = request["Item" if action == "Put" else "Key"], request.get("ExpressionAttributeValues", {})
        record = self._find(key)
        if not _is_true(request.get("ConditionExpression", ""), record or {}, values):
            _fail(_FALSE)
        if action == "Update":
            return key, _update(record or key, request["UpdateExpression"], values)
        return key, {"Put": key, "Delete": None, "ConditionCheck": record}[action]

    def _store(self, key: Record, record: Record | None) -> None:
        partition = self._records.setdefault(key["scope"]["S"], {})
        if record is None:
            partition.pop(key["id"]["S"], None)
        else:
            partition[key["id"]["S"]] = record


@dataclass(frozen=True)
class _Operand:
    """A value in a condition. A comparison with a value that is missing or has another type is false."""

    attribute: Attribute | None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Operand) and self.attribute is not None and self.attribute == other.attribute

    def __lt__(self, other: "_Operand") -> bool:
        return self._is_comparable(other) and self.value < other.value

    def __le__(self, other: "_Operand") -> bool:
        return self._is_comparable(other) and self.value <= other.value

    def _is_comparable(self, other: "_Operand") -> bool:
        return bool(self.attribute and other.attribute and self.attribute.keys() == other.attribute.keys())

    @property
    def value(self) -> Any:
        ((kind, value),) = (self.attribute or {"NULL": None}).items()
        return int(value) if kind == "N" else value


def _is_true(condition: str, record: Record, values: Mapping[str, Attribute]) -> bool:
    return not condition or _compile(condition)(record, values)


@cache
def _compile(condition: str) -> Callable[[Record, Mapping[str, Attribute]], bool]:
    """Return the function for a condition."""
    text = re.sub(r"(\S+) BETWEEN (\S+) AND (\S+)", r"(\2 <= \1 AND \1 <= \3)", condition)
    text = re.sub(r"\b(?:AND|OR|NOT)\b|(?<![<>])=(?!=)", lambda match: _WORDS[match[0]], text)
    text = re.sub(r"#\w+(?:\.#\w+)*", lambda match: f"at(record, {match[0]!r})", text)
    text = re.sub(r":\w+", lambda match: f"operand(values[{match[0]!r}])", text)
    functions: dict[str, Callable[..., Any]] = {
        "at": lambda record, path: _Operand(_find_at(record, path)),
        "operand": _Operand,
        "attribute_exists": lambda operand: operand.attribute is not None,
        "attribute_not_exists": lambda operand: operand.attribute is None,
        "begins_with": lambda operand, start: isinstance(operand.value, str) and operand.value.startswith(start.value),
        "size": lambda operand: _Operand({"N": len(operand.value)} if operand.attribute else None),
    }
    compiled: Callable[[Record, Mapping[str, Attribute]], bool] = eval(f"lambda record, values: {text}", functions)
    return compiled


def _find_at(record: Record, path: str) -> Attribute | None:
    """Return the attribute at a path, for example "#body.#name", or None."""
    name, _, inner = path[1:].partition(".")
    attribute = record.get(name)
    return _find_at(attribute.get("M", {}), inner) if inner and attribute else attribute


def _update(record: Record, update: str, values: Mapping[str, Attribute]) -> Record:
    for verb, clauses in _VERBS.findall(update):
        for clause in _COMMA.split(clauses):
            path, *operands = re.findall(r"#[\w.#]+|:\w+", clause)
            before = _find_at(record, path)
            if "if_not_exists" not in clause or before is None:
                record = _replace(record, path, _compute(verb, before, values[operands[-1]] if operands else {}))
    return record


def _compute(verb: str, before: Attribute | None, operand: Attribute) -> Attribute | None:
    """Return the new value of an attribute. Raises ClientError for a value of another type."""
    if verb in ("SET", "REMOVE"):
        return operand or None
    if before and before.keys() != operand.keys():
        _fail(_INVALID)
    if "N" in operand:
        return {"N": str(int((before or {"N": 0})["N"]) + int(operand["N"]))}
    former, entries = {*(before or {"SS": ()})["SS"]}, {*operand["SS"]}
    entries = former | entries if verb == "ADD" else former - entries
    return {"SS": sorted(entries)} if entries else None


def _replace(record: Record, path: str, value: Attribute | None) -> Record:
    """Return a record with another value at a path. Raises ClientError if the path leads through no map."""
    name, _, inner = path[1:].partition(".")
    if inner:
        if "M" not in (outer := record.get(name, {})):
            _fail(_INVALID)
        value = {"M": _replace(outer["M"], inner, value)}
    unchanged = {key: attribute for key, attribute in record.items() if key != name}
    return unchanged if value is None else {**unchanged, name: value}


def _fail(code: str, **details: Any) -> NoReturn:
    raise ClientError({"Error": {"Code": code}, **details}, "Write")
