"""The expressions of DynamoDB that `chalicelib.storage` writes, evaluated for records in memory.

Their names are those of the attributes, with a # before.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

from botocore.exceptions import ClientError

Attribute = Mapping[str, Any]  # for example {"S": "text"}
Record = Mapping[str, Attribute]

INVALID = "ValidationException"
_EXPRESSIONS = ("Condition", "Filter", "KeyCondition", "Projection", "Update")
_VERBS = re.compile(r"(SET|REMOVE|ADD|DELETE) (.*?)(?= (?:SET|REMOVE|ADD|DELETE) |$)")
_COMMA = re.compile(r", (?![^(]*\))")  # but not between the arguments of a function
_WORDS = {"AND": "and", "OR": "or", "NOT": "not", "=": "=="}


def check(request: Mapping[str, Any]) -> None:
    """Raise ClientError if a name or a value that an expression uses is missing, or one is not used."""
    text = " ".join(request.get(f"{kind}Expression", "") for kind in _EXPRESSIONS)
    names, values = request.get("ExpressionAttributeNames", {}), request.get("ExpressionAttributeValues", {})
    if _find_words(text) != names.keys() | values.keys():
        fail(INVALID)


@cache
def _find_words(expressions: str) -> frozenset[str]:
    """Return the names and values in expressions, for example "#id" and ":value"."""
    return frozenset(re.findall(r"[#:]\w+", expressions))


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


def is_true(condition: str, record: Record, values: Mapping[str, Attribute]) -> bool:
    return not condition or _compile(condition)(record, values)


@cache
def _compile(condition: str) -> Callable[[Record, Mapping[str, Attribute]], bool]:
    """Return the function for a condition."""
    text = re.sub(r"(\S+) BETWEEN (\S+) AND (\S+)", r"(\2 <= \1 AND \1 <= \3)", condition)
    text = re.sub(r" IN \(([^)]+)\)", r" in (\1,)", text)
    text = re.sub(r"\b(?:AND|OR|NOT)\b|(?<![<>])=(?!=)", lambda match: _WORDS[match[0]], text)
    text = re.sub(r"#\w+(?:\.#\w+)*", lambda match: f"at(record, {match[0]!r})", text)
    text = re.sub(r":\w+", lambda match: f"operand(values[{match[0]!r}])", text)
    functions: dict[str, Callable[..., Any]] = {
        "at": lambda record, path: _Operand(_find_at(record, path)),
        "operand": _Operand,
        "attribute_exists": lambda operand: operand.attribute is not None,
        "attribute_not_exists": lambda operand: operand.attribute is None,
        "contains": lambda operand, part: operand.attribute is not None and part.value in operand.value,
        "begins_with": lambda operand, start: isinstance(operand.value, str) and operand.value.startswith(start.value),
        "size": lambda operand: _Operand({"N": len(operand.value)} if operand.attribute else None),
    }
    compiled: Callable[[Record, Mapping[str, Attribute]], bool] = eval(f"lambda record, values: {text}", functions)
    return compiled


def _find_at(record: Record, path: str) -> Attribute | None:
    """Return the attribute at a path, for example "#body.#name", or None."""
    name, _, inner = path.removeprefix("#").partition(".")
    attribute = record.get(name)
    return _find_at(attribute.get("M", {}), inner) if inner and attribute else attribute


def update(record: Record, update: str, values: Mapping[str, Attribute]) -> Record:
    for verb, path, is_default, value in _parse_update(update):
        before = _find_at(record, path)
        if not is_default or before is None:
            record = _replace(record, path, _compute(verb, before, values[value] if value else {}))
    return record


@cache
def _parse_update(update: str) -> list[tuple[str, str, bool, str]]:
    """Return the clauses: the verb, the path, whether only a missing attribute is set, and the value's name or ""."""
    clauses = [(verb, clause) for verb, text in _VERBS.findall(update) for clause in _COMMA.split(text)]
    parsed = [(verb, clause, re.findall(r"#?[a-z_][\w.#]*|:\w+", clause)) for verb, clause in clauses]
    return [
        (verb, path, "if_not_exists" in clause, operands[-1] if operands else "")
        for verb, clause, (path, *operands) in parsed
    ]


def _compute(verb: str, before: Attribute | None, operand: Attribute) -> Attribute | None:
    """Return the new value of an attribute. Raises ClientError for a value of another type."""
    if verb in ("SET", "REMOVE"):
        return operand or None
    if before and before.keys() != operand.keys():
        fail(INVALID)
    if "N" in operand:
        return {"N": str(int((before or {"N": 0})["N"]) + int(operand["N"]))}
    former, entries = {*(before or {"SS": ()})["SS"]}, {*operand["SS"]}
    entries = former | entries if verb == "ADD" else former - entries
    return {"SS": sorted(entries)} if entries else None


def _replace(record: Record, path: str, value: Attribute | None) -> Record:
    """Return a record with another value at a path. Raises ClientError if the path leads through no map."""
    name, _, inner = path.removeprefix("#").partition(".")
    if inner:
        if "M" not in (outer := record.get(name, {})):
            fail(INVALID)
        value = {"M": _replace(outer["M"], inner, value)}
    unchanged = {key: attribute for key, attribute in record.items() if key != name}
    return unchanged if value is None else {**unchanged, name: value}


def project(record: Record, paths: Iterable[str]) -> Record:
    """Return the attributes of a record at some paths."""
    projected: Record = {}
    for path in paths:
        if (attribute := _find_at(record, path)) is not None:
            name, _, inner = path.removeprefix("#").partition(".")
            outer = {name: {"M": {}}, **projected} if inner else projected
            projected = _replace(outer, path, attribute)
    return projected


def fail(code: str, **details: Any) -> NoReturn:
    raise ClientError({"Error": {"Code": code}, **details}, "Write")
