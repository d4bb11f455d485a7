"""Computes how many bytes a record's audited fields can take in an audit event, from the schema of requests."""

from dataclasses import dataclass, replace

from chalicelib.model.audit.trail import MAX_BYTES
from chalicelib.model.base.records import Stored
from chalicelib.schema import json_schema
from infra.build.openapi.largest import UNBOUNDED, Largest, entries_of
from infra.build.openapi.schemas import Words

_DIGEST = 71  # bytes of a digest, which replaces keys, certificates and long texts in an audit event
_ENTRY = 3  # bytes that DynamoDB adds to the path and the content of a value


@dataclass(frozen=True)
class _Values:
    """Values in an audit event: their number, the bytes of their paths, and the bytes of their contents."""

    count: int = 0
    paths: int = 0
    bytes: int = 0

    def plus(self, other: "_Values", times: int = 1) -> "_Values":
        return _Values(
            self.count + times * other.count, self.paths + times * other.paths, self.bytes + times * other.bytes
        )


def largest(stored: type[Stored], shape: Words, sizes: Largest, name: str = "") -> int:
    """Return how many bytes the audited fields of a stored type can take.

    `name` is the path of the module that has these fields, or "" for a resource. A field that no request can set counts
    as the longest value that an audit event shows.
    """
    fields, at = shape["properties"], len(name) + 1
    values = [_values(fields.get(field, {}), sizes, at + len(field)) for field in stored.AUDITED]
    return sum(value.paths + value.bytes + _ENTRY * value.count for value in values)


def _values(words: Words, sizes: Largest, at: int) -> _Values:
    words, limit = sizes.resolve(words), words.get(json_schema.MAX_ENCODED, UNBOUNDED)
    if words.get("type") != "object":
        return _Values(1, at, max(_DIGEST, min(MAX_BYTES, sizes.size(words))))
    total = _Values()
    for name, field in words.get("properties", {}).items():
        total = total.plus(_values(field, sizes, at + 1 + len(name)))
    if words.get("additionalProperties"):
        each = _values(entries_of(words), sizes, at + 1 + sizes.text(words.get("propertyNames", {})))
        total = total.plus(each, int(words.get("maxProperties", UNBOUNDED)))
    return replace(total, bytes=max(_DIGEST * total.count, min(total.bytes, limit)))
