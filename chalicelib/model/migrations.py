"""Migrations: some add what a record of format 2 lacks, others convert records between formats 2 and 3.

A record is rewritten only if it has not changed meanwhile. The API can serve during a migration, which can be stopped
and continued at any record, because the code reads both formats. Tables of version 1.x must first be migrated by
version 2.0.0.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chalicelib import ids
from chalicelib.model.accounts import accounts, api_keys
from chalicelib.model.accounts.api_keys import ApiKey
from chalicelib.model.audit import trail
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.base.records import Stored
from chalicelib.model.edges import edges, special_edges, user_agents
from chalicelib.model.edges.match_costs import Uncompilable
from chalicelib.model.edges.modules import user_agent_filter
from chalicelib.model.edges.served import Modules
from chalicelib.model.names import base_names, listed_edges, name_counts, special_names
from chalicelib.model.names.special_names import SpecialOwner
from chalicelib.model.tunnels import ends, tunnels
from chalicelib.storage.client import dynamodb, queries
from chalicelib.storage.client.dynamodb import Condition, TransactionFailed, Write
from chalicelib.storage.records import item_keys, items, table, unique_keys, writes
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import UniqueKey

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Forms:
    """The stored types of resources by kind, and of their modules by kind and name."""

    kinds: Mapping[Kind, type[Stored]]
    modules: Mapping[Kind, Mapping[str, type[Stored]]]


@dataclass(frozen=True)
class Migration:
    """A migration. `writes` returns the transaction for a record, or nothing if the record is migrated already."""

    about: str
    writes: Callable[[Record, Forms], Sequence[Write]]


class OutdatedTable(Exception):
    """The table has records of version 1.x."""

    def __init__(self) -> None:
        super().__init__(
            f"The table {dynamodb.table_name()} has records of 1.x, which this version cannot read: upgrade it to 2.0.0"
            " first, and run 'migrate --apply' of 2.0.0 ('Upgrading' in infra/README.md)."
        )


def require_supported_table() -> None:
    """Raise OutdatedTable if the table has accounts of version 1.x. One query. Raises aws.AwsError.

    `require_supported_record` checks other records.
    """
    for page in queries.read_pages(
        {"scope": accounts.SCOPE},
        limit=None,
        KeyConditionExpression="#scope = :scope",
        FilterExpression="attribute_not_exists(#schema) AND attribute_not_exists(#revision)",
    ):
        if page:
            raise OutdatedTable


def require_supported_record(record: Record) -> None:
    """Raise OutdatedTable for a record of version 1.x. It has a body, but no `schema` and no `revision`."""
    if "body" in record and "schema" not in record and "revision" not in record:
        raise OutdatedTable


def comes_last(record: Record) -> bool:
    """Return whether a record is an edge that lacks the unique key of a hostport or base name.

    Such edges are migrated after all other records, oldest first.
    """
    return bool(_missing_keys(record))


def list_needed(record: Record, forms: Forms) -> list[Migration]:
    """Return the migrations that a record needs. Raises MalformedRecord, aws.Unavailable."""
    return [migration for migration in _select() if migration.writes(record, forms)]


def apply(record: Record, forms: Forms) -> bool:
    """Apply the needed migrations to a record. Return False if the record has changed meanwhile.

    Raises aws.Unavailable, and Taken if another account has one of an edge's names.
    """
    for migration in _select():
        if todo := migration.writes(record, forms):
            try:
                dynamodb.transact(todo)
            except TransactionFailed as failed:
                if taken := todo[failed.indexes[0]].failing:
                    raise taken from None
                return False
            rewritten = dynamodb.get(record["scope"], record["id"])
            if rewritten is None:
                break  # another process has moved or removed the record
            record = rewritten
    return True


def filter_cost(record: Record) -> int:
    """Return the RE2 instructions per byte of a route's user agent filter. Return 0 for other records."""
    if _kind(record) is not kinds.HTTPS_EDGE_ROUTES:
        return 0
    rules = Modules.of(Item.from_record(record).modules, kinds.HTTPS_EDGE_ROUTES).get(user_agent_filter.MODULE)
    try:
        return user_agents.matching_cost(rules) if rules else 0
    except Uncompilable:
        return 0


def end_tunnel_at(name: str) -> str:
    """End the tunnel that uses a name. Return the id of the tunnel, or "" if there is none."""
    owner = table.look_up(base_names.KIND, name) or {}
    if owner and tunnels.close_tunnel(owner["account"], owner["id"], by=trail.OPERATOR):
        return str(owner["id"])
    return ""


def name_kind(record: Record) -> str:
    """Return the name of a record's kind for messages. For other records: "unique key" or "other record"."""
    if record["id"] == unique_keys.ID:
        return "unique key"
    kind = _kind(record)
    return kind.name if kind else "other record"


def _kind(record: Record) -> Kind | None:
    """Return the kind of a record. Return None for unique keys, lists of revocations and internal records."""
    if record["id"] == unique_keys.ID or record["scope"].partition("#")[0] in (kinds.EDGE, "krl"):
        return None
    try:
        return kinds.identify(item_keys.find_item(record["scope"], record["id"])[1])
    except kinds.UnknownKind:
        return None


def _add_actor(record: Record, _forms: Forms) -> Sequence[Write]:
    """Add an event to the index by actor. Add an API key, or the key of an event, to its owner's list of keys."""
    item, kind = Item.from_record(record), _kind(record)
    if kind is kinds.API_KEYS:
        return _keep_key(item.account, ApiKey.of(item.body), item.id)
    if kind is not kinds.AUDIT_EVENTS or item.acted:
        return ()
    actor = trail.Event.of(item.body).actor
    acted = f"{item.account}#{trail.build_actor_key(actor['key_id'] or actor['type'], 0)}"
    there = Condition("attribute_exists(#id) AND attribute_not_exists(#acted)")
    update = Write.update(item.scope, item.id, there, sets={"acted": acted})
    acting = ApiKey(owner_id=actor["owner_id"])  # without an expiry, which audit events do not contain
    return (update, *(_keep_key(item.account, acting, actor["key_id"]) if actor["key_id"] else ()))


def _keep_key(account: str, stored: ApiKey, key: str) -> Sequence[Write]:
    item_key = trail.keys_scope(account, stored.owner_id), ids.strip_prefix(key)
    return () if dynamodb.get(*item_key) else (trail.keep_key(account, stored.owner_id, key, end=stored.end),)


def _set_expiry(record: Record, _forms: Forms) -> Sequence[Write]:
    """Set the expiry of an ending API key's records: key, token record, and entry in the owner's list."""
    if _kind(record) is not kinds.API_KEYS or "expires" in record:
        return ()
    item = Item.from_record(record)
    stored = ApiKey.of(item.body)
    if stored.end is None:
        return ()
    sets, token = {"expires": api_keys.expires(stored.end)}, api_keys.key_of(item.id)
    return (
        Write.update(*item.key, items.require_unchanged(item), sets=sets),
        Write.update(token.scope, unique_keys.ID, Condition("attribute_exists(#id)"), sets=sets),
        trail.keep_key(item.account, stored.owner_id, item.id, end=stored.end),
    )


def _add_defaults(record: Record, forms: Forms) -> Sequence[Write]:
    """Add the missing fields of a resource and its modules, with their defaults."""
    kind, item = _kind(record), Item.from_record(record)
    form = forms.kinds.get(kind) if kind else None
    if form is None or kind is None or not item.is_live:
        return ()
    known = forms.modules.get(kind, {})
    modules = {name: known[name].complete(module) if name in known else module for name, module in item.modules.items()}
    body = form.complete(item.body) if item.body else item.body
    completed = replace(item, body=body, modules=modules)
    return () if completed == item else (items.rewrite(item, completed),)


def _convert(record: Record, forms: Forms) -> Sequence[Write]:
    """Convert the packed texts of a resource to the format of new records: bytes from format 3 on, text in format 2."""
    kind, item = _kind(record), Item.from_record(record)
    form = forms.kinds.get(kind) if kind else None
    if form is None or not (item.is_live and item.body) or (body := form.convert(item.body)) == item.body:
        return ()
    return (items.rewrite(item, replace(item, body=body)),)


def _replace_name_keys(record: Record, forms: Forms) -> Sequence[Write]:
    """Replace an edge's unique keys by keys of format 3, for its base names and its hostports.

    The edge stays unchanged if another account has one of its names.
    """
    missing = _missing_keys(record)
    if not missing:
        return ()
    item = Item.from_record(record)
    stored = edges.Edge.of(item.body)
    new_keys = stored.unique_keys(item.account, item.id)
    replaced = {key.kind for key in (*new_keys, *stored.former_keys(item.account, item.id))}
    other_keys = (key for key in item.unique_keys if key.kind not in replaced)
    after = replace(item, unique_keys=(*other_keys, *new_keys))
    rewritten = writes.rewrite(item, after)
    return (*rewritten, *name_counts.add(item.account, name_counts.sum_counts(rewritten), bounds={}))


def _move(record: Record, _forms: Forms) -> Sequence[Write]:
    """Move a record to its primary key in the new format. Format 3 has all routes of an account in one collection."""
    item = Item.from_record(record)
    scope, id = item_keys.build_migrated(item.key)
    if (scope, id) == item.key or record["id"] == unique_keys.ID:
        return ()
    return (
        Write.put({**record, "scope": scope, "id": id}, Condition("attribute_not_exists(#id)")),
        Write.delete(*item.key, items.require_unchanged(item)),
    )


def _missing_keys(record: Record) -> list[UniqueKey]:
    """Return the unique keys of hostports and base names that an edge lacks. A malformed edge lacks none."""
    item = Item.from_record(record) if _kind(record) in kinds.EDGES else None
    if item is None or not item.body:
        return []
    try:
        required_keys = edges.Edge.of(item.body).unique_keys(item.account, item.id)
    except MalformedRecord:
        return []
    return [key for key in required_keys if key not in item.unique_keys]


def _list_edge(record: Record, _forms: Forms) -> Sequence[Write]:
    """Add an edge that has hostports to the list for edge hosts of earlier versions."""
    if _kind(record) not in kinds.EDGES:
        return ()
    item = Item.from_record(record)
    list_writes = listed_edges.list_edge(None, item)
    if not list_writes or listed_edges.is_listed(item.id):
        return ()
    return (Write.check(item.scope, item.id, items.require_unchanged(item)), *list_writes)


def _list_special_names(record: Record, _forms: Forms) -> Sequence[Write]:
    """Add an edge or tunnel to the list of special names (special_names.py), which edge hosts load at their start."""
    kind = _kind(record)
    if kind not in (*kinds.EDGES, kinds.HTTPS_EDGE_ROUTES, kinds.TUNNELS):
        return ()
    item = Item.from_record(record)
    owner = SpecialOwner(item.account, item.id)
    if kind is kinds.TUNNELS:
        list_writes = tunnels.list_special(item, ends.host_name(item))
    elif kind is kinds.HTTPS_EDGE_ROUTES:
        list_writes, owner = special_edges.list_route(None, item), special_edges.owner_of(item)
    else:
        list_writes = special_edges.list_edge(None, item)
    if not list_writes or not item.is_live or special_names.is_listed(owner):
        return ()
    return (Write.check(*item.key, items.require_unchanged(item)), *list_writes)


def _select() -> Sequence[Migration]:
    """Return the migrations to run. Conversions of records to another format run only if RECORD_FORMAT is set."""
    return (*_ADDITIONS, *_CONVERSIONS) if item_keys.is_format_selected() else _ADDITIONS


_ADDITIONS = (
    Migration("index of events by actor", _add_actor),
    Migration("unique keys of names below TUNNEL_DOMAIN and of hostports", _replace_name_keys),
    Migration("list of edges that the live edge reads", _list_edge),
    Migration("list of special names that edge hosts load at their start", _list_special_names),
    # a new field with a default needs no migration of its own, because this migration adds all such fields
    Migration("missing fields that have a default", _add_defaults),
    Migration("expiry of API keys that have an end", _set_expiry),
)
_CONVERSIONS = (
    Migration("texts in the selected record format", _convert),
    Migration("place in the selected record format", _move),
)
