"""moto, without what took a fifth of its time: copies of whole tables, and a search for the name of each field."""

from copy import deepcopy
from functools import cache
from typing import Any

import pytest
from moto.core.serialize import AttributePickerContext, XFormedAttributePicker
from moto.core.utils import method_names_from_class
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.models.table import Table

_transact = DynamoDBBackend.transact_write_items


class _Picker(XFormedAttributePicker):
    """Reads a field of what DynamoDB answers under its own name, where others may have it under another."""

    def __call__(self, context: AttributePickerContext) -> Any:
        if context.service_model and context.service_model.service_name == "dynamodb" and isinstance(context.obj, dict):
            return context.obj.get(context.key)
        return super().__call__(context)


def _transact_write_items(self: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> None:
    """Make a transaction, or put back the items that it names, where moto would copy the table for each action."""
    before = []
    for action in (action for named in transact_items for action in named.values()):
        table = self.get_table(action["TableName"])
        record = action.get("Key") or action["Item"]
        scope, id = DynamoType(record["scope"]), DynamoType(record["id"])
        before.append((table.items[scope], id, deepcopy(table.items[scope].get(id))))
    try:
        _transact(self, transact_items)
    except Exception:
        for items, id, item in before:
            items.pop(id, None)
            items |= {id: item} if item else {}
        raise


def install(patch: pytest.MonkeyPatch) -> None:
    """Have the moto of this process be so."""
    patch.setattr(DynamoDBBackend, "transact_write_items", _transact_write_items)
    patch.setattr(Table, "__deepcopy__", lambda table, memo: table, raising=False)
    patch.setattr("moto.core.responses.XFormedAttributePicker", _Picker)
    patch.setattr("moto.core.responses.method_names_from_class", cache(method_names_from_class))
