"""moto with less work for the same answers: half of the tests' CPU time went into it.

moto changes items where they are, and copies the whole table for each write of a transaction, to go back to. Where
items never change, a copy of the table can share them. In each attribute that it answers with, moto looks for all types
of attributes under several names; here for the one that the attribute has. Of an item that a query shows in part, it
converts all of it once for each attribute. It parses the few expressions that there are anew each time. It compares
the address of each request with those of all services, makes a request of Werkzeug's of it, reads its JSON as a form
too, and draws the 52 letters of its id one by one. Nobody reads the signature.
"""

import copy
from collections import defaultdict
from functools import cache, partial
from itertools import count
from typing import Any

from botocore.auth import SigV4Auth
from moto.core import responses
from moto.core.botocore_stubber import BotocoreStubber
from moto.core.parse import JSONParser
from moto.core.serialize import BaseJSONSerializer
from moto.core.utils import get_service_model, method_names_from_class
from moto.dynamodb.comparisons import ConditionExpressionParser
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import Item, LimitedSizeDict
from moto.dynamodb.models.table import Table
from moto.dynamodb.parsing.expressions import UpdateExpressionParser  # type: ignore[attr-defined]
from moto.dynamodb.responses import DynamoHandler

_copied, _update, _projected = Item.__deepcopy__, DynamoDBBackend.update_item, Item.project
_serialize = BaseJSONSerializer._serialize_type_structure
_process, _add_auth, _ids = BotocoreStubber.process_request, SigV4Auth.add_auth, count()
_ADDRESS = "https://dynamodb.us-east-1.amazonaws.com/"
_lexed = cache(partial(ConditionExpressionParser._lex_one_node, ConditionExpressionParser("", {}, {})))


def install() -> None:
    """Replace functions of moto, in this process, by faster ones with the same results."""
    for owner, name, function in (
        (Item, "__deepcopy__", lambda item, _: item),
        (Item, "project", _project),
        (Table, "__deepcopy__", _with_the_same_items),
        (DynamoDBBackend, "update_item", _update_a_copy),
        (BaseJSONSerializer, "_serialize_type_structure", _serialize_structure),
        (ConditionExpressionParser, "_lex_one_node", lambda _, expression: _lexed(expression)),
        (UpdateExpressionParser, "make", cache(UpdateExpressionParser.make)),
        (responses, "method_names_from_class", cache(method_names_from_class)),
        (responses, "gen_amzn_requestid_long", _with_an_id),
        (BotocoreStubber, "process_request", _processed),
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
        parser: Any = JSONParser(get_service_model("dynamodb").operation_model(self._get_action()))
        self.params = parser.parse({"body": request.body})


def _processed(stubber: Any, request: Any) -> Any:
    return _Handler(request).call_action() if request.url == _ADDRESS else _process(stubber, request)


def _sign(auth: Any, request: Any) -> None:
    if request.url != _ADDRESS or auth.credentials is None:
        _add_auth(auth, request)


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _with_an_id(headers: dict[str, Any]) -> str:
    headers["x-amzn-requestid"] = found = f"{next(_ids):052}"
    return found


def _with_the_same_items(table: Any, _: object) -> Any:
    same = copy.copy(table)
    same.items = defaultdict(dict, {scope: {**items} for scope, items in table.items.items()})
    return same


def _update_a_copy(store: Any, table_name: str, key: Any, *rest: Any, **settings: Any) -> Any:
    table = store.get_table(table_name)
    scope, id = store.get_keys_value(table, key)
    if item := table.get_item(scope, id):
        table.items[scope][id] = _copied(item, {})
    return _update(store, table_name, key, *rest, **settings)


def _project(item: Any, paths: list[list[str]]) -> Any:
    if any(len(path) > 1 for path in paths):
        return _projected(item, paths)
    part = Item(item.hash_key, item.range_key, {})
    part.attrs = LimitedSizeDict()
    for (name,) in paths:
        if name in item.attrs:
            dict.__setitem__(part.attrs, name, item.attrs[name])
    return part


def _serialize_structure(serializer: Any, serialized: Any, value: Any, shape: Any, key: str) -> None:
    if shape.name != "AttributeValue" or not isinstance(value, dict):
        _serialize(serializer, serialized, value, shape, key)
        return
    attribute: dict[str, Any] = {}
    for name, held in value.items():
        serializer._serialize(attribute, held, shape.members[name], name)
    serializer._default_serialize(serialized, attribute, shape, key)
