"""Migrations of records of earlier formats: steps, each of which finds and writes what a record lacks.

Each record is rewritten on the condition that it has not changed meanwhile. The migration can be stopped and continued
at any record while the API serves, because the code reads every format.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chalicelib import ids
from chalicelib.model.accounts import api_keys
from chalicelib.model.accounts.api_keys import ApiKey
from chalicelib.model.audit import trail
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.base.records import Stored
from chalicelib.model.edges import edges, listening, user_agents
from chalicelib.model.edges.match_costs import Uncompilable
from chalicelib.model.edges.served import Modules
from chalicelib.model.names import base_names, name_counts
from chalicelib.model.ssh import authorities
from chalicelib.model.tunnels import tunnels
from chalicelib.storage.client import dynamodb, queries
from chalicelib.storage.client.dynamodb import SCHEMA, Condition, TransactionFailed, Write
from chalicelib.storage.records import (
    cooldowns,
    items,
    places,
    revocation_lists,
    shared_keys,
    table,
    unique_keys,
    writes,
)
from chalicelib.storage.records.cooldowns import Cooldowns
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import UniqueKey

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Forms:
    """The stored types of kinds, and of their modules by name."""

    kinds: Mapping[Kind, type[Stored]]
    modules: Mapping[Kind, Mapping[str, type[Stored]]]


@dataclass(frozen=True)
class Step:
    """A step of the migration. `writes` returns the transaction for a record, empty if the record is up to date."""

    number: int
    about: str
    writes: Callable[[Record, Forms], Sequence[Write]]


def records() -> Iterator[Record]:
    """Yield all records. Edges without the keys of their names come last, oldest first. Raises aws.Unavailable."""
    without_names: list[Record] = []
    for page in queries.scan():
        for record in page:
            if _missing_keys(record):
                without_names.append(record)
            else:
                yield record
    yield from sorted(without_names, key=lambda record: ids.unprefixed(record["id"]))


def lacking(record: Record, forms: Forms) -> list[Step]:
    """Return the steps that a record needs. Raises aws.Unavailable."""
    return [step for step in STEPS if step.writes(record, forms)]


def apply(record: Record, forms: Forms) -> bool:
    """Apply all steps that a record needs; return False if the record has changed meanwhile.

    Raises Taken if another account has one of its names; aws.Unavailable.
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
    """Return the cost of a route's enabled user agent filter, 0 for any other record."""
    if _kind(record) is not kinds.HTTPS_EDGE_ROUTES:
        return 0
    rules = Modules.of(Item.from_record(record).modules).user_agent_filter
    try:
        return user_agents.matching_cost(rules) if rules else 0
    except Uncompilable:
        return 0


def end_tunnel_at(name: str) -> str:
    """End the tunnel that has a name; return its id, or "" if no tunnel has the name."""
    found = table.look_up(base_names.KIND, name) or {}
    if found and tunnels.close_tunnel(found["account"], found["id"], by=trail.OPERATOR):
        return str(found["id"])
    return ""


def what(record: Record) -> str:
    """Return the name of a record's kind, "unique key" or "other record"."""
    if record["id"] == unique_keys.ID:
        return "unique key"
    kind = _kind(record)
    return kind.name if kind else "other record"


def _kind(record: Record) -> Kind | None:
    """Return the kind of a record, or None for unique keys, lists and internal records."""
    if record["id"] == unique_keys.ID or record["scope"].partition("#")[0] in (kinds.EDGE, "krl"):
        return None
    try:
        return kinds.of(places.of_item(record["scope"], record["id"])[1])
    except kinds.UnknownKind:
        return None


def _to_second_edition(record: Record, _forms: Forms) -> Sequence[Write]:
    """Write the schema and a revision, and the unique key of an authority."""
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
    """Add the unique key of an authority's public key, and its list of revocations if it has none."""
    authority = authorities.SshAuthority.of(item.body)
    (key,) = authority.unique_keys(item.account, item.id)
    has_list = revocation_lists.read(item.id) is not None
    begun = () if has_list else (authorities.begin_list(item.account, item.id, authority.public_key),)
    second = _second(item.scope, item.id, claims=[[key.kind, key.value]])
    return (second, unique_keys.take(key, item.scope, item.id), *begun)


def _with_actor(record: Record, _forms: Forms) -> Sequence[Write]:
    """Add an event to the index by actor, and a key to the list of its owner's keys."""
    item, kind = Item.from_record(record), _kind(record)
    if kind is kinds.API_KEYS:
        return _kept(item.account, ApiKey.of(item.body), item.id)
    if kind is not kinds.AUDIT_EVENTS or item.acted:
        return ()
    actor = trail.Event.of(item.body).actor
    acted = f"{item.account}#{trail.acting(actor['key_id'] or actor['type'], 0)}"
    there = Condition("attribute_exists(#id) AND attribute_not_exists(#acted)")
    found = Write.update(item.scope, item.id, there, sets={"acted": acted})
    acting = ApiKey(owner_id=actor["owner_id"])  # its end is unknown
    return (found, *(_kept(item.account, acting, actor["key_id"]) if actor["key_id"] else ()))


def _kept(account: str, stored: ApiKey, key: str) -> Sequence[Write]:
    place = trail.keys_scope(account, stored.owner_id), ids.unprefixed(key)
    return () if dynamodb.get(*place) else (trail.keep_key(account, stored.owner_id, key, end=stored.end),)


def _with_expiry(record: Record, _forms: Forms) -> Sequence[Write]:
    """Let a key with an end, its token, and its entry under its owner expire."""
    if _kind(record) is not kinds.API_KEYS or "expires" in record:
        return ()
    item = Item.from_record(record)
    stored = ApiKey.of(item.body)
    if stored.end is None:
        return ()
    sets, token = {"expires": api_keys.expires(stored.end)}, api_keys.key_of(item.id)
    return (
        Write.update(*item.place, items.unchanged(item), sets=sets),
        Write.update(token.scope, unique_keys.ID, Condition("attribute_exists(#id)"), sets=sets),
        trail.keep_key(item.account, stored.owner_id, item.id, end=stored.end),
    )


def _with_defaults(record: Record, forms: Forms) -> Sequence[Write]:
    """Write the missing fields of a resource and its modules; pack texts."""
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
    """Replace an edge's unique keys by keys of its hostports within the account and keys of its names.

    The edge stays unchanged if another account has a name.
    """
    missing = _missing_keys(record)
    if not missing:
        return ()
    item = Item.from_record(record)
    after = replace(item, unique_keys=edges.Edge.of(item.body).unique_keys(item.account, item.id))
    rewritten = writes.rewrite(item, after)
    return (*rewritten, *name_counts.add(item.account, name_counts.sum_counts(rewritten), bounds={}))


def _moved(record: Record, _forms: Forms) -> Sequence[Write]:
    """Move a record unchanged to its place in the present format, for example a route to the account's routes."""
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
    if record["id"] == unique_keys.ID and account == base_names.KIND:
        return _listed_cooldown(record, path)
    if path == name_counts.FORMER_COOLDOWNS:
        return (Write.delete(record["scope"], record["id"], Condition("attribute_exists(#id)")),)
    if path == cooldowns.SCOPE:
        return name_counts.remove_wrong_cooldowns(Cooldowns.of(record))
    return name_counts.recount(account) if (record["scope"], record["id"]) == name_counts.record_key(account) else ()


def _listed_cooldown(record: Record, name: str) -> Sequence[Write]:
    """List the cooldown of a name in its account. Earlier versions did not list it."""
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
    """List an edge that has hostports, so that the live edge finds it."""
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
    Step(8, "API keys that expire after their end", _with_expiry),
)
