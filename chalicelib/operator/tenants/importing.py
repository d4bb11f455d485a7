"""`accounts import`: writes an export into an account that was just created.

It can be stopped at any time and run again.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import click

from chalicelib.model import changes
from chalicelib.model.accounts import accounts as stored_accounts
from chalicelib.model.accounts import switching
from chalicelib.model.audit import trail
from chalicelib.model.audit.partitions import WITHOUT_EDGE
from chalicelib.model.base import kinds
from chalicelib.model.changes import Change
from chalicelib.model.tenants import arrivals, portable
from chalicelib.model.tenants.arrivals import Arrivals
from chalicelib.model.tenants.portable import Exported, NotAnExport
from chalicelib.operator.accounts import check_account
from chalicelib.operator.command_line import CommandError, OperatorCommand, account_argument, reason_option
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, ConditionFailed, TransactionFailed, Write
from chalicelib.storage.records import change_log, items, table, unique_keys
from chalicelib.storage.records.items import Item

_IMPORTS = "operator#/imports"
_AT_ONCE = 50
_MAX_SHOWN = 20  # the most conflicts that an error message lists
_SETTINGS = ("name", "active", "created_at")  # fields that the new account keeps: the import does not replace them
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Import:
    """The import of a file into an account."""

    account: str
    file: Path
    report: Callable[[str], object]

    def run(self) -> list[str]:
        """Import the file. Return the secrets that must be created again. Raises UnknownId, CommandError."""
        check_account(self.account)
        try:
            export = self._validate()
        except NotAnExport as error:
            raise CommandError(f"{self.file}: {error} Nothing was imported.") from None
        self._begin(export.account)
        self._write(export.account, "claim")
        self._write(export.account, "other")
        self._finish(export.account)
        return export.lost

    def _validate(self) -> Arrivals:
        """Check all records of the export before the import begins. Raises NotAnExport."""
        with self.file.open(encoding="utf-8", errors="replace") as lines:
            account, records = portable.read(lines)
            export = Arrivals(account)
            for exported in records:
                export.check(exported)
        export.complete()
        return export

    def _begin(self, old: str) -> None:
        """Check for conflicts, and record that the import has begun. Raises CommandError."""
        item_key = (_IMPORTS, portable.digest(old))
        marker = dynamodb.get(*item_key)
        body = {"account": self.account, "is_complete": False}
        if marker and marker["body"] == body:
            return  # an earlier run of the command has begun this import
        if marker:
            raise CommandError(
                f"This account was already imported into {marker['body']['account']}, and can be imported only once."
            )
        self._check_target()
        conflicts = [*self._find_conflicts(old)]
        if conflicts:
            lines = "\n".join(conflicts[:_MAX_SHOWN])
            raise CommandError(f"Nothing was imported. There are {len(conflicts)} conflicts:\n{lines}")
        with suppress(ConditionFailed):  # another process has begun the same import in this moment
            dynamodb.do(Write.put({"scope": item_key[0], "id": item_key[1], "body": body, "revision": 1}, _ABSENT))

    def _check_target(self) -> None:
        """Raise CommandError if the account has more resources than a new account has."""
        for kind in kinds.TABLE:
            maximum = 1 if kind in (kinds.USERS, kinds.API_KEYS) else 0
            is_listed = kind.path and "{" not in kind.path and kind is not kinds.AUDIT_EVENTS
            if (
                is_listed
                and len(table.read_page(items.scope(self.account, kind.path), before=None, count=2)[0]) > maximum
            ):
                raise CommandError(f"{self.account} is not new: it has {kind.path}. Import into a new account.")

    def _find_conflicts(self, old: str) -> Iterator[str]:
        """Yield a sentence for each record in the table that the import may not replace."""
        if table.find(stored_accounts.SCOPE, old):
            yield f"The exported account {old} still exists: delete it first."
        for batch in _split(self._read_records(old, "all")):
            records_by_key = {_read_key(record): record for record in batch}
            for item_key, present in table.read_records(records_by_key).items():
                # A revocation list has many records. Only its first record (its head) is checked, so that a list counts
                # as one conflict. Records with the attribute `packed` are the others.
                if not (_may_replace(present, old) or "packed" in present):
                    yield f"{item_key[0]} is taken: {_advise(item_key)}"

    def _write(self, old: str, part: str) -> None:
        """Write the records that do not exist yet.

        Raises CommandError if another account has taken a unique key, or another process has written a record.
        """
        count = 0
        for batch in _split(self._read_records(old, part)):
            records_by_key = {_read_key(record): record for record in batch}
            present = table.read_records(records_by_key)
            missing = [
                _put(record, present.get(item_key), self.account)
                for item_key, record in records_by_key.items()
                if item_key not in present or _may_replace(present[item_key], old)
            ]
            if conflicts := [
                item_key
                for item_key, stored_record in present.items()
                if self._is_taken(records_by_key[item_key], stored_record, old)
            ]:
                raise CommandError(f"{conflicts[0][0]} was taken during the import: {_advise(conflicts[0])}")
            try:
                if missing:
                    dynamodb.transact([*missing, *change_log.entries(missing)])
            except TransactionFailed as failed:
                request = missing[failed.indexes[0]].request
                scope = (request.get("Item") or request["Key"])["scope"]["S"]
                raise CommandError(f"{scope} was taken during the import. Run the command again.") from None
            count += len(batch)
            self.report(f"{count:,} records …")

    def _is_taken(self, record: Record, present: Record, old: str) -> bool:
        """Return whether the unique key that a record stores belongs to another account."""
        if record["id"] != unique_keys.ID or _may_replace(present, old):
            return False
        is_same_item = (present.get("holder"), present.get("home")) == (record.get("holder"), record.get("home"))
        return not (is_same_item or present.get("account") == self.account)

    def _finish(self, old: str) -> None:
        """Copy the settings of the exported account, and mark the import as complete.

        Keys and credentials get copies of their owners' state and of the account's rules for API keys.
        """
        settings = next(self._read_settings(), None)
        if settings:
            changes.rewrite(Change(trail.OPERATOR), stored_accounts.SCOPE, self.account, partial(_configure, settings))
        trail.let_edge_act(self.account)
        for owner in stored_accounts.list_owners(self.account):
            switching.update_keys(self.account, owner.id)
        switching.copy_rules(self.account)
        digest = portable.digest(old)
        complete = Write.update(_IMPORTS, digest, _EXISTS, sets={"body.is_complete": True}, adds={"revision": 1})
        dynamodb.transact([complete, trail.operator_event("account.import", self.account)])

    def _read_settings(self) -> Iterator[Item]:
        for exported in self._read():
            if exported.record["scope"] == stored_accounts.SCOPE:
                yield Item.from_record(exported.record)

    def _read_records(self, old: str, part: str) -> Iterator[Record]:
        """Yield the records of the export, translated into records of the new account.

        `old` is the id of the exported account. `part` selects unique keys ("claim"), other records ("other"), or both
        ("all").
        """
        for exported in self._read():
            record = exported.record
            is_key = record["id"] == unique_keys.ID
            if _is_imported(exported) and part in ("all", "claim" if is_key else "other"):
                yield arrivals.translate(record, old, self.account)

    def _read(self) -> Iterator[Exported]:
        with self.file.open(encoding="utf-8") as lines:
            yield from portable.read(lines)[1]


_ABSENT, _EXISTS = Condition("attribute_not_exists(#id)"), Condition("attribute_exists(#id)")


def _is_imported(exported: Exported) -> bool:
    record = exported.record
    is_own = exported.record_class.portability == "portable" and record["scope"] != stored_accounts.SCOPE
    return is_own and record["id"] != WITHOUT_EDGE and arrivals.is_due(record)


def _read_key(record: Record) -> tuple[str, str]:
    return record["scope"], record["id"]


def _may_replace(present: Record, old: str) -> bool:
    """Return whether the import may replace a record in the table.

    The import may replace expired records. It may also replace records that the deletion of the exported account has
    left, unless an item uses them. `old` is the id of the exported account.
    """
    body = present.get("body")
    owners = {present.get("account"), body.get("account") if isinstance(body, Mapping) else None}
    is_left = bool(owners & {portable.digest(old), old})
    is_free = not present.get("holder") and not present.get("sharers")
    return not arrivals.is_due(present) or (is_left and is_free)


def _put(record: Record, present: Record | None, account: str) -> Write:
    """Return the write of an imported record.

    `present` is the stored record with the same primary key, which the write replaces, or None. But the head of a
    revocation list, which stays after the deletion of an account, is not replaced: the write sets the new account in
    the head, and removes the head's expiry.
    """
    if present is None:
        return Write.put(record, _ABSENT)
    same = Condition("#revision = :present", {"present": present["revision"]})
    if "stamp" in present:
        sets = {"body.account": account, "expires": None}
        return Write.update(*_read_key(record), same, sets=sets, adds={"revision": 1})
    return Write.put(record, same)


def _split(records: Iterator[Record]) -> Iterator[list[Record]]:
    while batch := list(islice(records, _AT_ONCE)):
        yield batch


def _advise(item_key: tuple[str, str]) -> str:
    kind = item_key[0].partition("#")[0]
    if kind in ("user_name", "name"):
        return "create the account with another --admin NAME."
    return "another account owns it, or this export was already imported."


def _configure(settings: Item, account: Item) -> Item:
    """Return the new account with the settings of the exported account. `settings` is the exported account's record."""
    fields = {name: value for name, value in settings.body.items() if name not in _SETTINGS}
    return replace(account, body={**account.body, **fields}, modules={**account.modules, **settings.modules})


@click.command("import", cls=OperatorCommand, help="Write an export into an account that was just created.")
@account_argument
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="The export.")
@reason_option
def import_(account: str, file: Path) -> None:
    """Run the command `accounts import`."""
    secrets = Import(account, file, partial(print, file=sys.stderr, flush=True)).run()
    print(f"{file} was imported into {account}.")
    for secret in secrets:
        print(f"make again: {secret}")
