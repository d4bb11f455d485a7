"""Records of earlier editions: a list of steps, each of which says what a record lacks, and writes it.

A record is rewritten by itself, on the condition that nobody has changed it meanwhile: the work can be stopped anywhere
and gone on with, while the API serves. The code reads every form meanwhile.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chalicelib import ids
from chalicelib.model import audit, edges, kinds
from chalicelib.model.kinds import Kind
from chalicelib.model.records import Owned, Stored
from chalicelib.model.ssh import authorities
from chalicelib.storage import dynamodb, items, revocation_lists, unique_keys
from chalicelib.storage.dynamodb import SCHEMA, Condition, TransactionFailed, Write
from chalicelib.storage.items import Item

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Forms:
    """The stored types of each kind, and of its modules by their names."""

    kinds: Mapping[Kind, type[Stored]]
    modules: Mapping[Kind, Mapping[str, type[Stored]]]


@dataclass(frozen=True)
class Step:
    """A step: `writes` returns those that bring a record up to date, all or nothing, none where it lacks nothing."""

    number: int
    about: str
    writes: Callable[[Record, Forms], Sequence[Write]]


def records() -> Iterator[Record]:
    """Yield all records. Raises aws.Unavailable."""
    for page in dynamodb.scan():
        yield from page


def lacking(record: Record, forms: Forms) -> list[Step]:
    """Return the steps that a record lacks. Raises aws.Unavailable."""
    return [step for step in STEPS if step.writes(record, forms)]


def apply(record: Record, forms: Forms) -> bool:
    """Do all steps that a record lacks; False when another has changed it meanwhile. Raises aws.Unavailable."""
    for step in STEPS:
        if writes := step.writes(record, forms):
            try:
                dynamodb.transact(writes)
            except TransactionFailed:
                return False
            record = dynamodb.get(record["scope"], record["id"]) or {}
    return True


def what(record: Record) -> str:
    """Return the name of a record's kind, "unique key" or "other record"."""
    if record["id"] == unique_keys.ID:
        return "unique key"
    kind = _kind(record)
    return kind.name if kind else "other record"


def _kind(record: Record) -> Kind | None:
    """Return the kind of a record, None for what is of no kind: unique keys, lists, what the edge keeps for itself."""
    if record["id"] == unique_keys.ID or record["scope"].partition("#")[0] in (kinds.EDGE, "krl"):
        return None
    try:
        return kinds.of(record["id"])
    except kinds.UnknownKind:
        return None


def _to_second_edition(record: Record, _forms: Forms) -> Sequence[Write]:
    """Write the schema and a revision, and what leads to an authority or an edge."""
    if "schema" in record:
        return ()
    item, kind = Item.from_record(record), _kind(record)
    if kind is kinds.SSH_CERTIFICATE_AUTHORITIES:
        return _with_unique_key(item)
    return (_second(record["scope"], record["id"]), *_leading_back(item, kind))


def _second(scope: str, id: str, **more: Any) -> Write:
    outdated = Condition("attribute_exists(#id) AND attribute_not_exists(#schema)")
    sets = {"schema": SCHEMA, **more}
    return Write.update(scope, id, outdated, sets=sets, adds={"revision": 1})


def _with_unique_key(item: Item) -> Sequence[Write]:
    """Add the unique key of an authority's public key, and its empty list of revocations, unless it has begun one."""
    authority = authorities.SshAuthority.of(item.body)
    (key,) = authority.unique_keys(item.account, item.id)
    has_list = revocation_lists.read(item.id) is not None
    begun = () if has_list else (authorities.new_list(item.account, item.id, authority.public_key),)
    second = _second(item.scope, item.id, claims=[[key.kind, key.value]])
    return (second, unique_keys.take(key, item.scope, item.id), *begun)


def _leading_back(item: Item, kind: Kind | None) -> Iterator[Write]:
    """Have the hostports of an edge lead to it, by which the live edge finds it."""
    held = Condition("#holder = :holder", {"holder": item.id})
    leads = {"body.account": item.account, "body.id": item.id}
    keys = edges.Edge.of(item.body).unique_keys(item.account, item.id) if kind in _WITH_HOSTPORTS else ()
    for key in keys:
        yield Write.update(key.scope, unique_keys.ID, held, sets=leads)


def _with_actor(record: Record, _forms: Forms) -> Sequence[Write]:
    """Have an event found by its actor, and an owner's by each key that it has or had."""
    item, kind = Item.from_record(record), _kind(record)
    if kind is kinds.API_KEYS:
        return _kept(item.account, Owned.of(item.body).owner_id, item.id)
    if kind is not kinds.AUDIT_EVENTS or item.acted:
        return ()
    actor = audit.Event.of(item.body).actor
    acted = f"{item.account}#{audit.acting(actor['key_id'] or actor['type'], 0)}"
    there = Condition("attribute_exists(#id) AND attribute_not_exists(#acted)")
    found = Write.update(item.scope, item.id, there, sets={"acted": acted})
    return (found, *(_kept(item.account, actor["owner_id"], actor["key_id"]) if actor["key_id"] else ()))


def _kept(account: str, owner: str, key: str) -> Sequence[Write]:
    place = audit.keys_scope(account, owner), ids.unprefixed(key)
    return () if dynamodb.get(*place) else (audit.keep_key(account, owner, key),)


def _with_defaults(record: Record, forms: Forms) -> Sequence[Write]:
    """Write the fields that the record of a resource, and of its modules, has by default alone."""
    kind = _kind(record)
    form = forms.kinds.get(kind) if kind else None
    if form is None or kind is None or not (item := Item.from_record(record)).is_live:
        return ()
    known = forms.modules.get(kind, {})
    modules = {name: known[name].completed(kept) if name in known else kept for name, kept in item.modules.items()}
    body = form.completed(item.body) if item.body else item.body
    completed = replace(item, body=body, modules=modules)
    return () if completed == item else (items.rewrite(item, completed),)


_WITH_HOSTPORTS = (kinds.HTTPS_EDGES, kinds.TLS_EDGES, kinds.TCP_EDGES)
STEPS = (
    Step(1, "schema, revision, and what leads to authorities and edges", _to_second_edition),
    Step(2, "events by their actors", _with_actor),
    Step(3, "fields that have a default", _with_defaults),  # the last one, which new fields need no step for
)
