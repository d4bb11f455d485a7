"""moto with less work for the same answers: half of the tests' CPU time went into it.

moto changes items in place, and copies the whole table for each write of a transaction, to go back to. If items never
change, one copy for a transaction can share them, and all partitions that it does not write. moto walks each request
and answer by the service's model; both are JSON already. It computes the size of an item again for each of its
attributes, and converts all of an item once for each attribute that a query shows. For a query of one partition, it
sorts the items of all partitions. It parses each condition three times for one write. It compares the address of each
request with those of all services, makes a request of Werkzeug's of it, and draws the 52 letters of its id one by one.
Nothing reads the signature.
"""

import copy
import json
import threading
from base64 import b64decode, b64encode
from functools import cache, partial
from itertools import count
from typing import Any

from botocore.auth import SigV4Auth
from moto.core import responses
from moto.core.botocore_stubber import BotocoreStubber
from moto.core.utils import method_names_from_class
from moto.dynamodb.comparisons import ConditionExpressionParser
from moto.dynamodb.exceptions import ItemSizeTooLarge
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType, Item, LimitedSizeDict
from moto.dynamodb.models.table import Table
from moto.dynamodb.parsing.expressions import UpdateExpressionParser  # type: ignore[attr-defined]
from moto.dynamodb.responses import DynamoHandler

from chalicelib.storage.client.aws import PARSED

_copied, _update, _projected = Item.__deepcopy__, DynamoDBBackend.update_item, Item.project
_queried: Any = Table.query
_transact, _parsed = DynamoDBBackend.transact_write_items, ConditionExpressionParser.parse
_cast: Any = DynamoType.cast_value.fget  # type: ignore[attr-defined]
_process, _add_auth, _ids = BotocoreStubber.process_request, SigV4Auth.add_auth, count()
_ADDRESS = "https://dynamodb.us-east-1.amazonaws.com/"
_JSON = {"Content-Type": "application/x-amz-json-1.0"}
_PLAIN = {"S", "B", "BOOL"}
_MAX_SIZE = 405_000  # of an item, as moto has it
_MAX_CONDITIONS = 500  # that are remembered
one_at_a_time = threading.RLock()
_transaction = threading.local()  # its items, and the copies of the tables as they were before it
_conditions: dict[str, tuple[Any, list[str], list[str]]] = {}
_lexed = cache(partial(ConditionExpressionParser._lex_one_node, ConditionExpressionParser("", {}, {})))


def install() -> None:
    """Replace functions of moto, in this process, by faster ones with the same results."""
    for owner, name, function in (
        (Item, "__deepcopy__", lambda item, _: item),
        (Item, "project", _project),
        (Table, "__deepcopy__", _with_the_same_items),
        (Table, "all_items", _list_items),
        (Table, "query", _query_partition),
        (DynamoDBBackend, "update_item", _update_a_copy),
        (DynamoDBBackend, "transact_write_items", _transact_with_one_copy),
        (Item, "__init__", _make_item),
        (DynamoType, "cast_value", property(_cast_value)),
        (DynamoType, "__hash__", _hash),
        (DynamoType, "__eq__", _equals),
        (ConditionExpressionParser, "parse", _parse),
        (ConditionExpressionParser, "_lex_one_node", lambda _, expression: _lexed(expression)),
        (UpdateExpressionParser, "make", cache(UpdateExpressionParser.make)),
        (responses, "method_names_from_class", cache(method_names_from_class)),
        (responses, "gen_amzn_requestid_long", _with_an_id),
        (BotocoreStubber, "process_request", _process_request),
        (SigV4Auth, "add_auth", _sign),
    ):
        setattr(owner, name, function)


class _Handler(DynamoHandler):
    """Moto's own, with what its operations look at of a request."""

    def __init__(self, request: Any) -> None:
        super().__init__()
        self.headers = {name: _text(value) for name, value in request.headers.items()}
        self.querystring, self.uri_match, self.region = {}, {}, "us-east-1"
        self.response_headers = {"server": "amazon.com"}
        self.current_account = self.get_current_account()
        body = _text(request.body)
        self.params = json.loads(body, object_hook=_with_bytes if '"B"' in body else None)

    def serialized(self, answer: Any) -> Any:
        if isinstance(answer.result, Exception) or self._get_action() not in PARSED:
            return super().serialized(answer)
        return 200, {**_JSON, **self.response_headers}, json.dumps(answer.result, default=_base64)


def _process_request(stubber: Any, request: Any) -> Any:
    if request.url != _ADDRESS:
        return _process(stubber, request)
    with one_at_a_time:  # a failed transaction would take back what other threads have written meanwhile
        return _Handler(request).call_action()


def _sign(auth: Any, request: Any) -> None:
    if request.url != _ADDRESS or auth.credentials is None:
        _add_auth(auth, request)


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _with_an_id(headers: dict[str, Any]) -> str:
    headers["x-amzn-requestid"] = request_id = f"{next(_ids):052}"
    return request_id


def _transact_with_one_copy(store: Any, items: list[dict[str, Any]]) -> None:
    _transaction.items, _transaction.copies = items, {}
    _transact(store, items)


def _list_items(table: Table) -> list[Item]:
    """Return the items, sorted. Other threads may write meanwhile: moto's own loop then fails."""
    partitions: list[Any] = list(table.items.values())
    items = [item for partition in partitions for item in list(partition.values())]
    return sorted(items, key=lambda item: (item.hash_key, item.range_key))


def _query_partition(table: Any, hash_key: Any, *arguments: Any, **options: Any) -> Any:
    """Query a table that has only the items of the partition, unless an index is queried."""
    if hash_key is None or options.get("index_name") or any(arguments[6:7]):
        return _queried(table, hash_key, *arguments, **options)
    part = copy.copy(table)
    part.items = {hash_key: table.items.get(hash_key, {})}
    return _queried(part, hash_key, *arguments, **options)


def _with_the_same_items(table: Any, _: object) -> Any:
    """Return the copy of a table to which its transaction goes back: a partition that it does not name is the same."""
    if table.name not in _transaction.copies:
        _transaction.copies[table.name] = table_copy = copy.copy(table)
        table_copy.items = table.items.copy()
        for write in _transaction.items:
            ((kind, parameters),) = write.items()
            scope = DynamoType((parameters["Item"] if kind == "Put" else parameters["Key"])[table.hash_key_attr])
            if scope in table_copy.items:
                table_copy.items[scope] = table.items[scope].copy()
    return _transaction.copies[table.name]


def _update_a_copy(store: Any, table_name: str, key: Any, *arguments: Any, **settings: Any) -> Any:
    table = store.get_table(table_name)
    scope, id = store.get_keys_value(table, key)
    if item := table.get_item(scope, id):
        table.items[scope][id] = _copied(item, {})
    return _update(store, table_name, key, *arguments, **settings)


def _project(item: Any, paths: list[list[str]]) -> Any:
    if any(len(path) > 1 for path in paths):
        return _projected(item, paths)
    part = Item(item.hash_key, item.range_key, {})
    part.attrs = LimitedSizeDict()
    for (name,) in paths:
        if name in item.attrs:
            dict.__setitem__(part.attrs, name, item.attrs[name])
    return part


def _make_item(item: Any, hash_key: Any, range_key: Any, attrs: dict[str, Any]) -> None:
    item.hash_key, item.range_key, item.attrs = hash_key, range_key, LimitedSizeDict()
    for name, value in attrs.items():
        dict.__setitem__(item.attrs, name, DynamoType(value))
    if 4 * len(repr(attrs)) > _MAX_SIZE and item.size() > _MAX_SIZE:  # a character has at most four bytes
        raise ItemSizeTooLarge


def _cast_value(value: Any) -> Any:
    return value.value if value.type in _PLAIN else _cast(value)


def _hash(value: Any) -> int:
    return hash(value.value if value.type in _PLAIN else _cast(value))


def _equals(value: Any, other: Any) -> bool:
    return value.type == other.type and (value is other or _cast_value(value) == _cast_value(other))


def _parse(parser: Any) -> Any:
    """Parse a condition, or return what was parsed of the same one before, with the names and values that it has."""
    key = repr((parser.condition_expression, parser.expression_attribute_names, parser.expression_attribute_values))
    if key not in _conditions:
        if len(_conditions) > _MAX_CONDITIONS:
            _conditions.clear()
        _conditions[key] = _parsed(parser), parser.expr_attr_names_found, parser.expr_attr_values_found
    condition, names, values = _conditions[key]
    parser.expr_attr_names_found, parser.expr_attr_values_found = [*names], [*values]  # moto adds to them
    return condition


def _with_bytes(value: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON object with the bytes of an attribute of type B."""
    text = value.get("B")
    return {"B": b64decode(text)} if isinstance(text, str) else value


def _base64(value: bytes) -> str:
    return b64encode(value).decode()
