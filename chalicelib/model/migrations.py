"""Records of earlier editions: a list of steps, each of which says what a record lacks, and writes it.

A record is rewritten by itself, on the condition that nobody has changed it meanwhile: the work can be stopped anywhere
and gone on with, while the API serves. The code reads every form meanwhile.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chalicelib import ids
from chalicelib.model import audit, edges, kinds, listening, name_counts, names, tunnels, user_agents
from chalicelib.model.kinds import Kind
from chalicelib.model.match_costs import Uncompilable
from chalicelib.model.records import Owned, Stored
from chalicelib.model.served import Modules
from chalicelib.model.ssh import authorities
from chalicelib.storage import (
    cooldowns,
    dynamodb,
    items,
    places,
    queries,
    revocation_lists,
    shared_keys,
    table,
    unique_keys,
    writes,
)
from chalicelib.storage.cooldowns import Cooldowns
from chalicelib.storage.dynamodb import SCHEMA, Condition, TransactionFailed, Write
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import UniqueKey

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
    """Yield all records, last and the oldest first the edges that lack their names. Raises aws.Unavailable."""
    without_names: list[Record] = []
    for page in queries.scan():
        for record in page:
            if _missing_keys(record):
                without_names.append(record)
            else:
                yield record
    yield from sorted(without_names, key=lambda record: ids.unprefixed(record["id"]))


def lacking(record: Record, forms: Forms) -> list[Step]:
    """Return the steps that a record lacks. Raises aws.Unavailable."""
    return [step for step in STEPS if step.writes(record, forms)]


def apply(record: Record, forms: Forms) -> bool:
    """Do all steps that a record lacks; False when another has changed it meanwhile.

    Raises Taken where another account has a name of it; aws.Unavailable.
    """
    for step in STEPS:
        if todo := step.writes(record, forms):
            try:
                dynamodb.transact(todo)
            except TransactionFailed as failed:
                if taken := todo[failed.places[0]].failing:
                    raise taken from None
                return False
            rewritten = dynamodb.get(record["scope"], record["id"])
            if rewritten is None:
                break  # it was moved or removed
            record = rewritten
    return True


def filter_cost(record: Record) -> int:
    """Return what the enabled user agent filter of a route costs, 0 for any other record."""
    if _kind(record) is not kinds.HTTPS_EDGE_ROUTES:
        return 0
    rules = Modules.of(Item.from_record(record).modules).user_agent_filter
    try:
        return user_agents.matching_cost(rules) if rules else 0
    except Uncompilable:
        return 0


def end_tunnel_at(name: str) -> str:
    """End the tunnel that has a name which an edge is to have; return its id, "" where no tunnel has it."""
    found = table.look_up(names.KIND, name) or {}
    if found and tunnels.close_tunnel(found["account"], found["id"], by=audit.OPERATOR):
        return str(found["id"])
    return ""


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
        return kinds.of(places.of_item(record["scope"], record["id"])[1])
    except kinds.UnknownKind:
        return None


def _to_second_edition(record: Record, _forms: Forms) -> Sequence[Write]:
    """Write the schema and a revision, and what leads to an authority."""
    if "schema" in record:
        return ()
    item, kind = Item.from_record(record), _kind(record)
    if kind is kinds.SSH_CERTIFICATE_AUTHORITIES:
        return _with_unique_key(item)
    return (_second(record["scope"], record["id"]),)


def _second(scope: str, id: str, **more: Any) -> Write:
    outdated = Condition("attribute_exists(#id) AND attribute_not_exists(#schema)")
    sets = {"schema": SCHEMA, **more}
    return Write.update(scope, id, outdated, sets=sets, adds={"revision": 1})


def _with_unique_key(item: Item) -> Sequence[Write]:
    """Add the unique key of an authority's public key, and its empty list of revocations, unless it has begun one."""
    authority = authorities.SshAuthority.of(item.body)
    (key,) = authority.unique_keys(item.account, item.id)
    has_list = revocation_lists.read(item.id) is not None
    begun = () if has_list else (authorities.begin_list(item.account, item.id, authority.public_key),)
    second = _second(item.scope, item.id, claims=[[key.kind, key.value]])
    return (second, unique_keys.take(key, item.scope, item.id), *begun)


def _with_actor(record: Record, _forms: Forms) -> Sequence[Write]:
    """Add an event to the index by actor, and to an owner each key that it has or had."""
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
    """Write the fields that the record of a resource, and of its modules, has by default alone; pack its texts."""
    kind = _kind(record)
    form = forms.kinds.get(kind) if kind else None
    if form is None or kind is None or not (item := Item.from_record(record)).is_live:
        return ()
    known = forms.modules.get(kind, {})
    modules = {name: known[name].completed(kept) if name in known else kept for name, kept in item.modules.items()}
    body = form.completed(item.body) if item.body else item.body
    completed = replace(item, body=body, modules=modules)
    return () if completed == item else (items.rewrite(item, completed),)


def _with_names(record: Record, forms: Forms) -> Sequence[Write]:
    """Replace an edge's unique keys: hostports of its account alone, and the names that they lie below.

    Where another account has a name, the edge stays as it is.
    """
    missing = _missing_keys(record)
    if not missing:
        return ()
    item = Item.from_record(record)
    after = replace(item, unique_keys=edges.Edge.of(item.body).unique_keys(item.account, item.id))
    rewritten = writes.rewrite(item, after)
    return (*rewritten, *name_counts.add(item.account, name_counts.sum_counts(rewritten), bounds={}))


def _moved(record: Record, _forms: Forms) -> Sequence[Write]:
    """Move a record to where those are written now: a route beside those of the other edges, or back among its own.

    The record is the same there, with its revision.
    """
    item = Item.from_record(record)
    scope, id = places.lasting(item.place)
    if (scope, id) == item.place or record["id"] == unique_keys.ID:
        return ()
    return (
        Write.put({**record, "scope": scope, "id": id}, Condition("attribute_not_exists(#id)")),
        Write.delete(*item.place, items.unchanged(item)),
    )


def _with_counts(record: Record, _forms: Forms) -> Sequence[Write]:
    """Correct the counts of an account's names, and the lists of its cooldowns."""
    account, _, path = record["scope"].partition("#")
    if record["id"] == unique_keys.ID and account == names.KIND:
        return _listed_cooldown(record, path)
    if path == name_counts.FORMER_COOLDOWNS:
        return (Write.delete(record["scope"], record["id"], Condition("attribute_exists(#id)")),)
    if path == cooldowns.SCOPE:
        return name_counts.remove_wrong_cooldowns(Cooldowns.of(record))
    return name_counts.recount(account) if (record["scope"], record["id"]) == name_counts.record_key(account) else ()


def _listed_cooldown(record: Record, name: str) -> Sequence[Write]:
    """List the cooldown of a name, which an earlier version began, for its account."""
    listed = shared_keys.list_cooldown(record, name)
    return (*listed, *name_counts.add(record.get("account", ""), name_counts.sum_counts(listed), bounds={}))


def _missing_keys(record: Record) -> list[UniqueKey]:
    """Return the keys that an edge lacks: of its hostports in its account, of its names."""
    item = Item.from_record(record) if _kind(record) in kinds.EDGES else None
    if item is None or not item.body:
        return []
    wanted = edges.Edge.of(item.body).unique_keys(item.account, item.id)
    return [key for key in wanted if key not in item.unique_keys]


def _listed(record: Record, _forms: Forms) -> Sequence[Write]:
    """List an edge that listens somewhere, so that the live edge finds it."""
    if _kind(record) not in kinds.EDGES:
        return ()
    item = Item.from_record(record)
    found = listening.list_edge(None, item)
    if not found or listening.is_listed(item.id):
        return ()
    return (Write.check(item.scope, item.id, items.unchanged(item)), *found)


STEPS = (
    Step(1, "schema, revision, and what leads to authorities", _to_second_edition),
    Step(2, "events by their actors", _with_actor),
    Step(3, "names below TUNNEL_DOMAIN, and hostports that two accounts may have", _with_names),
    Step(4, "edges that the live edge finds", _listed),
    Step(5, "fields that have a default, texts as bytes", _with_defaults),  # which new fields need no step for
    Step(6, "routes in one collection", _moved),
    Step(7, "counts of names, each counted once", _with_counts),
)
