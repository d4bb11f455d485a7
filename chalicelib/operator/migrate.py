"""Migration of records, and its report."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from typing import Any

import click

from chalicelib import edges, modules, resources
from chalicelib.model import migrations
from chalicelib.model.accounts import accounts
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.base.records import Stored
from chalicelib.model.edges.user_agents import MAX_COST
from chalicelib.model.migrations import Forms, Migration, OutdatedTable
from chalicelib.model.names import base_names
from chalicelib.model.names.name_keys import NameKey
from chalicelib.operator.command_line import CommandError, OperatorCommand
from chalicelib.storage.records import places
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import Taken

PAUSE = 5.0  # seconds between two reports of progress


@click.command("migrate", cls=OperatorCommand, help="Count the old records that need a migration.")
@click.option("--apply", "applies", is_flag=True, help="Migrate them, also while the API serves; can be repeated.")
def migrate(applies: bool) -> None:
    """Run the command `migrate`. Raises CommandError for a table of 1.x."""
    try:
        for line in run(applies=applies, report=partial(print, file=sys.stderr, flush=True)):
            print(line, flush=True)
    except OutdatedTable as outdated:
        raise CommandError(str(outdated)) from None


def forms() -> Forms:
    """Return the stored types of each kind and of its modules."""
    own: dict[Kind, type[Stored]] = {kinds.ACCOUNTS: accounts.Account}  # no endpoint shows accounts
    served = {resource.kind: resource for resource in (*resources.ALL, *edges.ALL)}
    return Forms(
        {**own, **{kind: resource.stored for kind, resource in served.items()}},
        {kind: {module.name: module.stored for module in modules.of(kind)} for kind in served},
    )


def run(*, applies: bool, report: Callable[[str], object], pause: float = PAUSE) -> Iterator[str]:
    """Count the records that need a migration; migrate them if `applies`. Yield lines.

    Progress goes to `report`, at most once per pause (seconds). Raises OutdatedTable, aws.Unavailable.
    """
    migrations.require_supported_table()
    stored_types, total, needed, done = forms(), 0, Counter[tuple[str, str]](), Counter[bool]()
    keeps_format = "" if places.is_format_selected() else " Records keep their format: RECORD_FORMAT selects another."
    report(f"Reading the table …{keeps_format}")
    reported = time.monotonic()
    for record in migrations.records():
        total += 1
        if time.monotonic() - reported >= pause:
            report(f"{total:,} records read, {sum(needed.values()):,} migrations to do, {done[True]:,} rewritten …")
            reported = time.monotonic()
        lacking = yield from _needed(record, stored_types)
        needed.update((migrations.what(record), migration.about) for migration in lacking)
        if lacking and applies:
            done[(yield from _apply(record, stored_types))] += 1
    counts = sorted(needed.items())
    summary = "; ".join(f"{count} of the kind {what} ({about})" for (what, about), count in counts)
    yield f"{total} records; to be rewritten: {summary or 'none'}."
    if applies:
        again = f" {done[False]} changed meanwhile: run it again." if done[False] else ""
        yield f"{done[True]} rewritten.{again}"
    elif needed:
        yield "Nothing was changed: --apply rewrites them."


def _needed(record: Mapping[str, Any], stored_types: Forms) -> Generator[str, None, list[Migration]]:
    """Return the migrations that a record needs.

    Yield a sentence if the record is malformed, its filter too costly, or its name the operator's.
    """
    try:
        yield from _costly(record)
        yield from _reserved(record)
        return migrations.needed(record, stored_types)
    except MalformedRecord as malformed:
        yield f"The record {record['id']} in {record['scope']} is malformed and stays as it is. {malformed}"
        return []


def _costly(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence about a route with a user agent filter above MAX_COST."""
    if (cost := migrations.filter_cost(record)) > MAX_COST:
        item = Item.from_record(record)
        edge = item.path.split("/")[3]
        yield (
            f"The user agent filter of {item.id}, a route of {edge} of {item.account}, takes {cost} instructions of RE2"
            f" for a byte. The edge closes the route until its owner changes the filter: at most {MAX_COST} are served."
        )


def _reserved(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence about a name that an account has and the operator's service needs."""
    name = record["scope"].removeprefix(f"{base_names.KIND}#")
    if name == record["scope"] or name.partition(".")[0] not in base_names.OPERATOR_NAMES:
        return
    key = NameKey.of(record)
    if key.is_in_use and name.partition(".")[2] == base_names.domain_in_use():
        yield f"{key.account} has the name {name}, which is reserved by now: the service answers there. Warn its owner."


def _apply(record: Mapping[str, Any], stored_types: Forms) -> Generator[str, None, bool]:
    """Migrate a record; yield tunnels and edges that lose a name.

    Returns False if the record changed at the same time.
    """
    try:
        return migrations.apply(record, stored_types)
    except Taken as taken:
        name = taken.key.value
        if tunnel := migrations.end_tunnel_at(name):
            yield f"The tunnel {tunnel} was ended: the edge {record['id']} has {name}."
            return (yield from _apply(record, stored_types))
        yield f"The edge {record['id']} loses {name}: another account has it. Change its hostports."
        return False
