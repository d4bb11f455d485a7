"""Copies of an edge within its account, written without the API."""

import json
import re
from collections.abc import Iterable
from itertools import islice

import boto3

from bench.tenants import Served
from chalicelib import ids

_BATCH = 25  # items of a write
_LEFT_OUT = re.compile("changes#|.*/audit_events")
_ID = re.compile(r"\bedghts(?:rt)?_[0-9A-Za-z]{27}\b")


def copy_edge(table: str, served: Served, labels: Iterable[str]) -> None:
    """Copy an edge with its routes to other labels. No other edge may have its label or a part of the label."""
    store, label = boto3.client("dynamodb"), served.name.partition(".")[0]
    pages = store.get_paginator("scan").paginate(TableName=table)
    items = [item for page in pages for item in page["Items"] if not _LEFT_OUT.match(item["scope"]["S"])]
    texts = [json.dumps(item) for item in items if _is_own(item["scope"]["S"] + item["id"]["S"], served.edge, label)]
    writes = ({"PutRequest": {"Item": item}} for new in labels for item in _copy(texts, label, new))
    while batch := list(islice(writes, _BATCH)):
        store.batch_write_item(RequestItems={table: batch})


def _is_own(key: str, edge: str, label: str) -> bool:
    """Return whether a record with this key is of the edge: a copy must not replace records that others share."""
    return edge in key or label in key


def _copy(texts: list[str], label: str, new: str) -> list[object]:
    new_ids: dict[str, str] = {}

    def replace(match: re.Match[str]) -> str:
        return new_ids.setdefault(match[0], ids.new(match[0].partition("_")[0]))

    return [json.loads(_ID.sub(replace, text).replace(label, new)) for text in texts]
