"""Migration of records, and its report."""

import json
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import click

from chalicelib import edges, ids, modules, resources
from chalicelib.model import migrations
from chalicelib.model.accounts import accounts
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.base.records import Stored
from chalicelib.model.edges.user_agents import MAX_COST
from chalicelib.model.migrations import Forms, Migration, OutdatedTable
from chalicelib.model.names import base_names
from chalicelib.model.names.name_keys import NameKey
from chalicelib.operator.bulk import segments
from chalicelib.operator.bulk.progress import open_progress, progress_option, report
from chalicelib.operator.bulk.segments import Records, ScanFolder, Selection
from chalicelib.operator.command_line import CommandError, OperatorCommand
from chalicelib.storage.client import dynamodb
from chalicelib.storage.records import item_keys
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import Taken

T = TypeVar("T")


@click.command("migrate", cls=OperatorCommand, help="Count the old records that need a migration.")
@click.option(
    "--apply",
    "applies",
    is_flag=True,
    help="Migrate these records. The API can serve meanwhile, and the command can be repeated.",
)
@progress_option
def migrate(applies: bool, folder: Path | None) -> None:
    """Run the command `migrate`. Raises CommandError if the table is from version 1.x."""
    with open_progress(folder) as path:
        try:
            for line in Run(applies, path, forms(), report).lines():
                print(line, flush=True)
        except OutdatedTable as outdated:
            raise CommandError(str(outdated)) from None


def forms() -> Forms:
    """Return the stored types of all kinds and of their modules. A stored type is the dataclass of a record's body."""
    # No `Resource` declares the stored type of accounts, because the API has no endpoint for accounts.
    internal_types: dict[Kind, type[Stored]] = {kinds.ACCOUNTS: accounts.Account}
    served = {resource.kind: resource for resource in (*resources.load_all(), *edges.load_all())}
    return Forms(
        {**internal_types, **{kind: resource.stored for kind, resource in served.items()}},
        {kind: {module.name: module.stored for module in modules.of(kind)} for kind in served},
    )


@dataclass(frozen=True)
class Run:
    """A migration of the table, which writes only if `applies`. `folder` has the files of its progress."""

    applies: bool
    folder: Path
    stored_types: Forms
    report: Callable[[str], object]

    def lines(self) -> Iterator[str]:
        """Count the records that need a migration; migrate them if `applies`. Yield the lines of the report.

        Raises OutdatedTable, CommandError, aws.Unavailable.
        """
        migrations.require_supported_table()
        keeps = (
            ""
            if item_keys.is_format_selected()
            else " The format of records stays the same, because RECORD_FORMAT is not set."
        )
        self.report(f"Reading the table …{keeps}")
        purpose = {"command": "migrate", "table": dynamodb.table_name(), "applies": str(self.applies)}
        folder = ScanFolder(self.folder, purpose)
        total = segments.scan(folder, Selection(), self._migrate_page, self.report)
        needed, done, last = Counter[tuple[str, str]](), Counter[bool](), list[list[str]]()
        for line in chain(folder.lines(), self._migrate_last(last)):
            entry = json.loads(line)
            needed.update((kind_name, about) for kind_name, about in entry.get("needed", ()))
            done.update([entry["done"]] if "done" in entry else [])
            last += [entry["last"]] if "last" in entry else []
            yield from [entry["say"]] if "say" in entry else []
        folder.remove()
        yield from self._summarize(total, needed, done)

    def _summarize(self, total: int, needed: Counter[tuple[str, str]], done: Counter[bool]) -> Iterator[str]:
        counts = sorted(needed.items())
        summary = "; ".join(f"{count} of the kind {kind_name} ({about})" for (kind_name, about), count in counts)
        yield f"{total} records; to be rewritten: {summary or 'none'}."
        if self.applies:
            again = f" {done[False]} changed during the migration: run the command again." if done[False] else ""
            yield f"{done[True]} rewritten.{again}"
        elif needed:
            yield "Nothing was changed: run the command with --apply to migrate these records."

    def _migrate_page(self, page: Records) -> Iterator[str]:
        for record in page:
            migrations.require_supported_record(record)
            if migrations.comes_last(record):
                yield json.dumps({"last": [record["scope"], record["id"]]})
            else:
                yield from self._migrate(record)

    def _migrate_last(self, item_keys_of_edges: Sequence[Sequence[str]]) -> Iterator[str]:
        """Migrate the edges that lack unique keys of their names. Yield lines of JSON as `_migrate` does.

        Start with the oldest edge: if two edges have the same name, the older edge keeps the name.
        """
        for scope, id in sorted(item_keys_of_edges, key=lambda item_key: ids.strip_prefix(item_key[1])):
            if record := dynamodb.get(scope, id):
                yield from self._migrate(record)

    def _migrate(self, record: Mapping[str, Any]) -> Iterator[str]:
        """Migrate a record if `applies`.

        Yield lines of JSON with sentences about the record, the migrations that it needs, and whether it was rewritten.
        """
        lacking = yield from _encode_sentences(_list_needed(record, self.stored_types))
        if lacking:
            needed = [[migrations.name_kind(record), migration.about] for migration in lacking]
            done = (yield from _encode_sentences(_apply(record, self.stored_types))) if self.applies else None
            yield json.dumps({"needed": needed, **({} if done is None else {"done": done})})


def _encode_sentences(sentences: Generator[str, None, T]) -> Generator[str, None, T]:
    """Yield each sentence from a generator as a line of JSON. Return the result of the generator."""
    while True:
        try:
            yield json.dumps({"say": next(sentences)})
        except StopIteration as end:
            result: T = end.value
            return result


def _list_needed(record: Mapping[str, Any], stored_types: Forms) -> Generator[str, None, list[Migration]]:
    """Return the migrations that a record needs.

    Yield a sentence if the record is malformed, if its user agent filter costs too much, or if its name belongs to the
    operator.
    """
    try:
        yield from _report_costly(record)
        yield from _report_reserved(record)
        return migrations.list_needed(record, stored_types)
    except MalformedRecord as malformed:
        yield f"The record {record['id']} in {record['scope']} is malformed and stays as it is. {malformed}"
        return []


def _report_costly(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence if a record is a route with a user agent filter that costs more than MAX_COST."""
    if (cost := migrations.filter_cost(record)) > MAX_COST:
        item = Item.from_record(record)
        edge = item.path.split("/")[3]
        yield (
            f"The user agent filter of {item.id}, a route of {edge} of {item.account}, takes {cost} instructions of RE2"
            f" for a byte. The edge closes the route until its owner changes the filter: at most {MAX_COST} are served."
        )


def _report_reserved(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence if an account has a name that the operator's service uses itself."""
    name = record["scope"].removeprefix(f"{base_names.KIND}#")
    if name == record["scope"] or name.partition(".")[0] not in base_names.OPERATOR_NAMES:
        return
    key = NameKey.of(record)
    if key.is_in_use and name.partition(".")[2] == base_names.domain_in_use():
        yield (
            f"{key.account} has the name {name}, which the operator has reserved since: the service answers there. "
            "Warn the account's owner."
        )


def _apply(record: Mapping[str, Any], stored_types: Forms) -> Generator[str, None, bool]:
    """Migrate a record. Yield sentences about tunnels and edges that lose a name.

    Returns False if the record changed at the same time.
    """
    try:
        return migrations.apply(record, stored_types)
    except Taken as taken:
        name = taken.key.value
        if tunnel := migrations.end_tunnel_at(name):
            yield f"The tunnel {tunnel} was ended, because the edge {record['id']} owns its name {name}."
            return (yield from _apply(record, stored_types))
        yield (
            f"The edge {record['id']} loses the name {name}, which another account owns: change the hostports of the "
            "edge."
        )
        return False
