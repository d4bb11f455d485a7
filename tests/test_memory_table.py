"""The tables in memory, compared with moto's for random writes and reads."""

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, Literal

import boto3
import pytest

from chalicelib.storage import provisioning
from chalicelib.storage.client import aws, dynamodb, queries
from chalicelib.storage.client.dynamodb import Condition, ConditionFailed, TransactionFailed, Write
from chalicelib.storage.records import table

SCOPES, IDS = ("a#/x", "b#/x"), ("1", "2", "3")
VALUES: Mapping[str, tuple[Any, ...]] = {
    "count": (3, 7, 30),
    "text": ("x", "xyz"),
    "set": ({"p"}, {"p", "q"}),
    "body": ({"inner": 1}, {"inner": 2, "other": {"text": "y", "list": [1, "x", None, True, b"z"]}}),
    "lease": (4, 9),
    "indexed": ("r", "q"),
}
AFTER = "#scope = :s AND #id > :a"
CONDITIONS = (
    Condition(""),
    Condition("attribute_exists(#id)"),
    Condition("attribute_not_exists(#id) OR #count <= :most", {"most": 8}),
    Condition("attribute_exists(#body) AND (attribute_not_exists(#lease) OR #lease > :now)", {"now": 5}),
    Condition("#text = :text AND attribute_not_exists(#body.#other)", {"text": "x"}),
    Condition("(begins_with(#text, :start) OR #count < :most) AND attribute_exists(#id)", {"start": "xy", "most": 9}),
    Condition("attribute_not_exists(#set) OR size(#set) < :most", {"most": 2}),
    Condition("NOT #body.#inner = :one", {"one": 1}),
    Condition("#text IN (:a, :b) AND #count BETWEEN :low AND :high", {"a": "x", "b": "y", "low": 3, "high": 7}),
    Condition("contains(#text, :part) OR #text IN (:a)", {"part": "z", "a": "x"}),
)


_FIRST: tuple[Literal["highest", "lowest"], ...] = ("highest", "lowest")


def _draw_write(chance: Random) -> Write:
    key, condition = (chance.choice(SCOPES), chance.choice(IDS)), chance.choice(CONDITIONS)
    match chance.choice(("put", "update", "update", "update", "delete", "check")):
        case "put":
            values = {name: chance.choice(VALUES[name]) for name in chance.sample(list(VALUES), 3)}
            return Write.put({"scope": key[0], "id": key[1], **values}, condition if condition.text else None)
        case "delete":
            return Write.delete(*key, condition if condition.text else None)
        case "check":
            return Write.check(*key, CONDITIONS[1 + chance.randrange(len(CONDITIONS) - 1)])
    changes: dict[str, Any] = chance.choice(
        (
            {"sets": {"text": chance.choice(VALUES["text"]), "body": None}, "adds": {"count": 1}},
            {"sets": {"body.inner": 5, "body.other.text": None}},
            {"sets": {"text": None}, "adds": {"set": {"q", "r"}}, "defaults": {"body": {"inner": 2}}},
            {"removes": {"set": {"p", "q"}}, "defaults": {"count": 3}},
        )
    )
    return Write.update(*key, condition, **changes)


def _draw(chance: Random) -> Callable[[], Any]:
    """Return a random call of the table."""
    writes = [_draw_write(chance) for _ in range(chance.choice((1, 1, 3)))]
    keys = [write.request.get("Key", write.request.get("Item", {})) for write in writes]
    if len({(key["scope"]["S"], key["id"]["S"]) for key in keys}) < len(writes):
        return _draw(chance)
    return chance.choice(
        (
            lambda: dynamodb.transact(writes),
            lambda: [dynamodb.do(write) for write in writes if write.action != "ConditionCheck"],
            lambda: dynamodb.get_each(*((scope, id) for scope in SCOPES for id in IDS)),
            lambda: dynamodb.get("a#/x", "1"),
            lambda: [table.list_newest(scope) for scope in SCOPES],
            lambda: [*table.read_between("a#/x", "1", "2")],
            lambda: [*queries.read_pages({"s": "a#/x", "a": "1"}, limit=None, KeyConditionExpression=AFTER)],
            lambda: _read_pages(chance, CONDITIONS[1 + chance.randrange(len(CONDITIONS) - 1)]),
        )
    )


def _read_pages(chance: Random, only: Condition) -> list[Any]:
    """Read with a filter, in small pages: a partition, an index, and the table."""
    expressions = {"KeyConditionExpression": "#scope = :s", "FilterExpression": only.text}
    limit, first = chance.choice((1, 2)), chance.choice(_FIRST)
    indexed: dict[str, Any] = {"index": "by-resource", "KeyConditionExpression": "#indexed = :s"}
    return [
        [*queries.read_pages({"s": "a#/x", **only.values}, limit=limit, first=first, **expressions)],
        [*queries.read_pages({"s": "r", **only.values}, limit=limit, first=first, **expressions | indexed)],
        [{**record} for page in queries.scan(only.values, FilterExpression=only.text) for record in page],
    ]


def _call(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except TransactionFailed as failed:
        return failed.indexes
    except ConditionFailed:
        return "false"
    except aws.AwsError as error:
        return error.code
    except Exception as error:
        return type(error).__name__


@pytest.fixture
def moto(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Make a table of moto's own, in another region. Return its client."""
    client = boto3.client("dynamodb", region_name="us-west-2")
    with monkeypatch.context() as patched:
        patched.setitem(aws._clients, "dynamodb", client)
        provisioning.create_table()
    yield client
    client.update_table(TableName=dynamodb.table_name(), DeletionProtectionEnabled=False)
    client.delete_table(TableName=dynamodb.table_name())


@pytest.mark.parametrize("seed", range(4))
def test_the_tables_answer_like_moto(seed: int, moto: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(seed)
    for number in range(100):
        call, state = _draw(chance), chance.getstate()
        with monkeypatch.context() as patched:
            patched.setitem(aws._clients, "dynamodb", moto)
            expected = _call(call)
        chance.setstate(state)
        assert _call(call) == expected, number
