"""Conversion of Python values to DynamoDB attributes and back. Numbers are integers, sets contain strings.

boto3's converter takes 40 ms to import and returns types that neither JSON nor cryptography accepts.
"""

from collections.abc import Mapping
from typing import Any


def attribute(value: Any) -> dict[str, Any]:
    """Return a value as one attribute, for example {"S": "text"}. Raises TypeError."""
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
            return {"M": attributes(value)}
        case list() | tuple():
            return {"L": [attribute(entry) for entry in value]}
        case set() | frozenset():
            return {"SS": sorted(value)}
    raise TypeError(f"DynamoDB cannot store a {type(value).__name__}")


def attributes(record: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a record to attributes by name."""
    return {name: attribute(value) for name, value in record.items()}


def plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """Convert attributes by name back to a record."""
    return {name: _value(attribute) for name, attribute in record.items()}


def _value(attribute: Mapping[str, Any]) -> Any:
    ((kind, stored),) = attribute.items()
    match kind:
        case "S" | "BOOL" | "B":
            return stored
        case "N":
            return int(stored) if stored.lstrip("-").isdigit() else stored
        case "M":
            return plain(stored)
        case "L":
            return [_value(entry) for entry in stored]
        case "SS":
            return set(stored)
        case "NULL":
            return None
    return stored  # a type that this API never writes: the reader of the record checks it
