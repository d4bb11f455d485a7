"""Queries and scans of the table, page by page, as plain records."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from chalicelib.storage.client import aws, dynamodb

_NONE: Mapping[str, Any] = {}
# The most records in a page of a parallel scan. Without a limit, a page has up to 1 MB of encoded records, and the
# pages of 16 segments would take 200 MB of memory when decoded.
_SCANNED = 1000


def read_pages(
    values: Mapping[str, Any],
    *,
    limit: int | None,
    index: str = "",
    first: Literal["highest", "lowest"] = "highest",
    **expressions: str,
) -> Iterator[list[dict[str, Any]]]:
    """Yield the records that a query selects, page by page. `first` says whether the highest or lowest id comes first.

    `limit` is the number of records that DynamoDB reads for the first page. A filter can remove all of these records,
    so the first page can be empty. Raises aws.Unavailable.
    """
    query: dict[str, Any] = {
        "TableName": dynamodb.table_name(),
        **({"IndexName": index} if index else {"ConsistentRead": True}),
        "ScanIndexForward": first == "lowest",
        **dynamodb.build_expressions(values, **expressions),
        **({"Limit": limit} if limit else {}),
    }
    yield from _follow("query", query, aws.call("dynamodb", "query", **query))


def read_each(each: Iterable[Mapping[str, Any]], **expressions: str) -> list[dict[str, Any]]:
    """Return all records that some queries select. The queries differ in their values, and are sent at the same time.

    Raises aws.Unavailable.
    """
    table = {"TableName": dynamodb.table_name(), "ConsistentRead": True, "ScanIndexForward": False}
    calls = [{**table, **dynamodb.build_expressions(values, **expressions)} for values in each]
    answers = zip(calls, aws.call_each("dynamodb", "query", calls), strict=True)
    return [record for call, answer in answers for page in _follow("query", call, answer) for record in page]


def scan(values: Mapping[str, Any] = _NONE, **expressions: str) -> Iterator[list[dict[str, Any]]]:
    """Yield all records of the table that pass a filter, page by page, unordered. Raises aws.Unavailable."""
    selected = dynamodb.build_expressions(values, **expressions) if expressions else {}
    request: dict[str, Any] = {"TableName": dynamodb.table_name(), "ConsistentRead": True, **selected}
    yield from _follow("scan", request, aws.call("dynamodb", "scan", **request))


@dataclass(frozen=True)
class Segment:
    """One of `total` parts of the table, which are scanned in parallel. `number` starts at 0."""

    number: int
    total: int


def scan_page(
    segment: Segment, after: Mapping[str, str] | None, values: Mapping[str, Any] = _NONE, **expressions: str
) -> tuple[list[dict[str, Any]], dict[str, str] | None]:
    """Return the next page of a segment, and the key at which the following page starts. Raises aws.Unavailable.

    At the end of the segment, the key is None.
    """
    selected = dynamodb.build_expressions(values, **expressions) if expressions else {}
    request: dict[str, Any] = {
        "TableName": dynamodb.table_name(),
        "ConsistentRead": True,
        "Segment": segment.number,
        "TotalSegments": segment.total,
        "Limit": _SCANNED,
        **selected,
    }
    if after:
        request["ExclusiveStartKey"] = dynamodb.encode(after)
    answer = aws.call("dynamodb", "scan", **request)
    last = answer.get("LastEvaluatedKey")
    return [dynamodb.decode(item) for item in answer["Items"]], dynamodb.decode(last) if last else None


def _follow(operation: str, request: dict[str, Any], answer: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Yield the records in the answer to a query or scan, and then those of the following pages."""
    while True:
        yield [dynamodb.decode(item) for item in answer["Items"]]
        if "LastEvaluatedKey" not in answer:
            return
        request.pop("Limit", None)
        request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
        answer = aws.call("dynamodb", operation, **request)
