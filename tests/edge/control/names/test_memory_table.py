"""MemoryTable, compared with moto for random writes and reads."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest

from chalicelib.storage.client import aws, dynamodb, queries
from chalicelib.storage.client.dynamodb import Condition, ConditionFailed, TransactionFailed, Write
from chalicelib.storage.records import table
from tests.edge.control.names.memory_table import MemoryTable

SCOPES, IDS = ("a#/x", "b#/x"), ("1", "2", "3")
VALUES: Mapping[str, tuple[Any, ...]] = {
    "count": (3, 7, 30),
    "text": ("x", "xyz"),
    "set": ({"p"}, {"p", "q"}),
    "body": ({"inner": 1}, {"inner": 2, "other": {"text": "y", "list": [1, "x", None, True, b"z"]}}),
    "lease": (4, 9),
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
)


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
    keys = (it.request.get("Key", it.request.get("Item", {})) for it in writes)
    if len({(it["scope"]["S"], it["id"]["S"]) for it in keys}) < len(writes):
        return _draw(chance)
    return chance.choice(
        (
            lambda: dynamodb.transact(writes),
            lambda: [dynamodb.do(it) for it in writes if it.action != "ConditionCheck"],
            lambda: dynamodb.get_each(*((scope, id) for scope in SCOPES for id in IDS)),
            lambda: dynamodb.get("a#/x", "1"),
            lambda: [table.list_newest(scope) for scope in SCOPES],
            lambda: [*table.read_between("a#/x", "1", "2")],
            lambda: [*queries.read_pages({"s": "a#/x", "a": "1"}, limit=None, KeyConditionExpression=AFTER)],
        )
    )


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


@pytest.mark.parametrize("seed", range(20))
def test_the_table_answers_like_moto(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, memory = Random(seed), MemoryTable({})
    for number in range(100):
        call = _draw(chance)
        expected = _call(call)
        with monkeypatch.context() as patched:
            patched.setitem(aws._clients, "dynamodb", memory)
            assert _call(call) == expected, number
