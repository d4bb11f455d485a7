"""`accounts export`: writes all records of an account to a file, without secrets."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import click

from chalicelib.model.accounts import accounts as stored_accounts
from chalicelib.model.tenants import portable, record_classes
from chalicelib.operator import accounts
from chalicelib.operator.bulk import segments
from chalicelib.operator.bulk.segments import Records, ScanFolder, Selection
from chalicelib.operator.command_line import CommandError, OperatorCommand, account_argument
from chalicelib.storage.client import dynamodb

_MODE = 0o600


def export_account(account: str, into: Path, report: Callable[[str], object]) -> int:
    """Write the records of an account into a new file; return their number. Continues an interrupted export.

    Raises UnknownId, CommandError, aws.Unavailable.
    """
    accounts.check_account(account)
    if into.exists():
        raise CommandError(f"{into} exists: choose another file.")
    purpose = {"command": "accounts export", "table": dynamodb.table_name(), "account": account}
    folder = ScanFolder(into.with_name(f"{into.name}.parts"), purpose)
    selection = select(account)
    segments.scan(folder, selection, _read_lines, report)
    count = _write(into, account, folder.lines())
    folder.remove()
    return count


def select(account: str) -> Selection:
    """Return the Selection of a scan that reads only the records with the id of an account."""
    condition = record_classes.match_account(account)
    return Selection(condition.values, {"FilterExpression": condition.text})


def _read_lines(records: Records) -> Iterator[str]:
    for record in records:
        yield from portable.export(record)


def _write(into: Path, account: str, lines: Iterable[str]) -> int:
    """Write a whole export. The file appears only when it is complete."""
    part, count = into.with_name(f"{into.name}.new"), 0
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE), "w", encoding="utf-8") as file:
        file.write(f"{portable.begin(account)}\n")
        for line in lines:
            file.write(f"{line}\n")
            count += 1
        file.write(f"{portable.end(count)}\n")
        file.flush()
        os.fsync(file.fileno())
    part.replace(into)
    return count


@click.command("export", cls=OperatorCommand, help="Write all records of an account into a file, without secrets.")
@account_argument
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="The new file. FILE.parts has the progress until the file is complete: run the command again to continue.",
)
def export(account: str, into: Path) -> None:
    """Run the command `accounts export`."""
    if stored_accounts.is_account_active(account):
        print(f"{account} is active: the export can miss its changes from now on.", file=sys.stderr)
    count = export_account(account, into, partial(print, file=sys.stderr, flush=True))
    print(f"{count} records of {account} are in {into}.")
