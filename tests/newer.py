"""What a newer version may store: unknown fields, modules and attributes in every record of the table."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from chalicelib.model.accounts import accounts
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.base.records import Stored
from chalicelib.storage.client import queries
from chalicelib.storage.records import item_keys, unique_keys
from tests.records import put

Record = dict[str, Any]
Keys = frozenset[tuple[str, str]]  # scopes and ids

_FIELD, _MODULE, _ATTRIBUTE = {"future": {"a": ["b"]}}, {"of_the_future": {"enabled": True}}, {"newer": "kept"}
_HIDDEN, _UNIQUE_KEY = {"of_the_future": "kept"}, "future_key"
_PROOF = "proof"  # a stored value that a body holds as a plain map


def extend_all() -> Keys:
    """Add what a newer version may store to every record. Return the keys of the records."""
    records = list(_scan())
    for record in records:
        extended = _extend(record)
        put(extended)
        for kind, value in extended.get("claims", ()):
            if kind == _UNIQUE_KEY:
                scope, id = item_keys.find_item(record["scope"], record["id"])
                fields = {"holder": id, "home": scope, "body": {}, "revision": 1}
                put({"scope": f"{kind}#{value}", "id": unique_keys.ID, **fields})
    return frozenset((record["scope"], record["id"]) for record in records)


def find_lost(keys: Keys) -> dict[str, list[str]]:
    """Return the attributes that lack some of it, by scope and id of the records that still exist."""
    existing = {
        f"{record['scope']} {record['id']}": record for record in _scan() if (record["scope"], record["id"]) in keys
    }
    lacking = {
        name: [attribute for attribute, value in _extend(record).items() if record.get(attribute) != value]
        for name, record in existing.items()
    }
    return {name: attributes for name, attributes in lacking.items() if attributes}


def _scan() -> Iterator[Record]:
    for page in queries.scan():
        yield from page


def _extend(record: Record) -> Record:
    """Return a record with what a newer version may store. It does not change if it has all of that."""
    kind = _kind(record)
    form = kind.stored_type if kind else Stored
    body = {"body": _with_field(form, record["body"])} if "body" in record else {}
    if kind is None or kind is kinds.AUDIT_EVENTS:
        return {**record, **_ATTRIBUTE, **body}
    parts = {
        name: _with_field(kinds.find_module_type(name), module)
        for name, module in record.get("parts", {}).items()
        if name not in _MODULE
    }
    claims, claim = record.get("claims", []), [_UNIQUE_KEY, record["id"]]
    relations = {
        "parts": {**parts, **_MODULE},
        "unseen": {**record.get("unseen", {}), **_HIDDEN},
        "claims": claims if claim in claims else [*claims, claim],
    }
    return {**record, **_ATTRIBUTE, **body, **relations}


def _with_field(form: type[Stored], record: Record) -> Record:
    """Return the record of a stored value with an unknown field, also in the stored values that it holds."""
    values = vars(form.of(record))
    inner = {name: _inner(values.get(name), value) for name, value in record.items()}
    proof = {_PROOF: {**record[_PROOF], **_FIELD}} if record.get(_PROOF) else {}
    return {**inner, **proof, **_FIELD}


def _inner(value: Any, record: Any) -> Any:
    if isinstance(value, Stored):
        return _with_field(type(value), record)
    if isinstance(value, Mapping):
        return {name: _inner(entry, record[name]) for name, entry in value.items()}
    return record


def _kind(record: Record) -> Kind | None:
    """Return the kind of the item of a record, or None for a unique key, list or internal record."""
    scope, id = item_keys.find_item(record["scope"], record["id"])
    account, _, path = scope.partition("#")
    kind = next((kind for kind in kinds.TABLE if kind.has(id)), None)
    if kind is None or not (kinds.ACCOUNTS.has(account) or scope == accounts.SCOPE):
        return None
    pattern = re.sub(r"\{\w+\}", "[^/]+", kind.path)
    return kind if re.fullmatch(pattern, path) else None
