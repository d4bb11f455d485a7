"""The file of an exported account: one JSON object per line.

The first line names the account, the last one counts the others. Each other line has the class of a record, and its
attributes in DynamoDB's format, which preserves all types.
"""

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib import clock
from chalicelib.model.base import kinds
from chalicelib.model.tenants import record_classes, sealed_values
from chalicelib.model.tenants.record_classes import RecordClass
from chalicelib.storage.client import aws, dynamodb, queries

FORMAT = 1
_UNNAMED: Mapping[str, Any] = {"holder": None, "home": None, "successor": None, "body": {}}


class NotAnExport(Exception):
    """A file is not a complete export. The message contains the reason, if possible with the number of the line."""


@dataclass(frozen=True)
class Exported:
    """A record of an export, with its class."""

    record_class: RecordClass
    record: Mapping[str, Any]


def digest(account: str) -> str:
    """Return the digest of an account's id, for records that must not contain the id itself."""
    return hashlib.sha256(account.encode()).hexdigest()


def begin(account: str) -> str:
    """Return the first line of an export."""
    return json.dumps({"format": FORMAT, "account": account, "exported_at": clock.rfc3339(clock.now())})


def end(count: int) -> str:
    """Return the last line of an export with `count` records."""
    return json.dumps({"records": count})


def export(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for a record: none if it is not exported, several for a revocation list.

    Raises UnclassifiedRecord, aws.Unavailable.
    """
    record_class = record_classes.classify(record["scope"], record["id"])
    if record_class.portability == "omitted" or record.get("expires", clock.seconds() + 1) <= clock.seconds():
        return
    portable_record = _remove_exclusive_owner(record) if record_class.removal == "name" else record
    if portable_record:
        yield to_line(Exported(record_class, sealed_values.remove(portable_record)))
    if record_class.removal == "list":
        yield from _chunks(record["scope"])


def to_line(exported: Exported) -> str:
    """Return a record as a line of an export."""
    written = {"class": exported.record_class.name, "record": dynamodb.encode(exported.record)}
    return json.dumps(written, default=_base64)


def read(lines: Iterable[str]) -> tuple[str, Iterator[Exported]]:
    """Return the account of an export, and an iterator of its records.

    Raises NotAnExport, also during the iteration.
    """
    numbered = enumerate(lines, 1)
    first = _parse(*next(numbered, (1, "")))
    if first.get("format") != FORMAT or not kinds.ACCOUNTS.has(str(first.get("account"))):
        raise NotAnExport(f"Line 1 is not the beginning of an export of format {FORMAT}.")
    return first["account"], _records(numbered)


def _records(numbered: Iterator[tuple[int, str]]) -> Iterator[Exported]:
    count, fields = 0, None
    for number, line in numbered:
        fields = _parse(number, line)
        if "records" in fields:
            break
        yield _decode(number, fields)
        count += 1
    if fields is None or fields.get("records") != count or next(numbered, None):
        raise NotAnExport("The export is incomplete: its last line must have the number of its records. Export again.")


def _decode(number: int, line: Mapping[str, Any]) -> Exported:
    try:
        record = dynamodb.decode(line["record"])
        record_class = record_classes.classify(record["scope"], record["id"])
    except (record_classes.UnclassifiedRecord, LookupError, TypeError, ValueError, AttributeError):
        raise NotAnExport(
            f"Line {number} is not a record that this version can read: import with the version that exported it."
        ) from None
    if record_class.portability == "omitted" or sealed_values.find(record):
        raise NotAnExport(f"Line {number} is a record that an export must not contain. Import the unchanged export.")
    return Exported(record_class, record)


def _parse(number: int, line: str) -> dict[str, Any]:
    try:
        fields = aws.parse(line.encode())
    except ValueError:
        fields = None
    if fields is None:
        raise NotAnExport(f"Line {number} is not a JSON object.")
    return fields


def _remove_exclusive_owner(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a name's record without the tunnel that uses the name, and without the operator's ban of the name.

    Return {} if the name has no edge, no reservation and no cooldown.
    """
    name_record = {name: value for name, value in {**record, **_UNNAMED}.items() if value is not None}
    is_used = name_record.get("sharers") or name_record.get("rests", 0) > clock.seconds()
    return name_record if is_used else {}


def _chunks(scope: str) -> Iterator[str]:
    values = {"scope": scope, "head": "head"}
    for page in queries.read_pages(values, limit=None, KeyConditionExpression="#scope = :scope AND #id < :head"):
        for chunk in page:
            yield to_line(Exported(record_classes.classify(scope, chunk["id"]), chunk))


def _base64(value: bytes) -> str:
    return b64encode(value).decode()
