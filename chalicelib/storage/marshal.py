"""Python values to DynamoDB attributes and back: every number is an integer, every binary is bytes."""

from collections.abc import Mapping
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

_serializer = TypeSerializer()


class _Plain(TypeDeserializer):  # type: ignore[misc]
    # boto3 answers with Decimal and Binary, which neither JSON nor cryptography takes.
    def _deserialize_n(self, value: str) -> int:
        return int(value)

    def _deserialize_b(self, value: bytes) -> bytes:
        return value


_plain = _Plain()


def attribute(value: Any) -> dict[str, Any]:
    """A value as one attribute, for example {"S": "text"}."""
    serialized: dict[str, Any] = _serializer.serialize(value)
    return serialized


def attributes(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record as DynamoDB takes it."""
    return {name: attribute(value) for name, value in record.items()}


def plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record as it was before `attributes`."""
    return {name: _plain.deserialize(value) for name, value in record.items()}
