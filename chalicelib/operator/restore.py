"""Commands that repeat revocations in a table that was restored from a backup.

The restored table lacks the revocations after the backup. `revocations list` finds them in the later table, which was
used until the restore. The list is text with one revocation per line, so that the operator can read it and remove
lines. `revocations repeat` reads only the list and does not need the later table.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import click

from chalicelib import crypto, ids
from chalicelib.model import changes
from chalicelib.model.accounts import switching
from chalicelib.model.audit.trail import OPERATOR
from chalicelib.model.base import kinds
from chalicelib.model.changes import Change
from chalicelib.model.ssh import revocations
from chalicelib.model.ssh.revocations import AlreadyRevoked, Issuer, Revocation
from chalicelib.operator.bulk.progress import open_progress, progress_option, report
from chalicelib.operator.bulk.revoked_since import DELETED, PUBLIC_KEY, SWITCHED_OFF, Comparison
from chalicelib.operator.command_line import CommandError, OperatorGroup
from chalicelib.storage.client import dynamodb
from chalicelib.storage.records import items
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.revocation_lists import ListFull

group = OperatorGroup("revocations", help="Revocations made after the time to which this table was restored.")


@dataclass(frozen=True)
class ListedRevocation:
    """A line of the output of `revocations list`: one revocation to repeat.

    `id` is the revoked resource. For a revoked SSH certificate or public key, `id` is the authority that revoked it,
    and `record` is the stored revocation. Otherwise `record` is empty.
    """

    account: str
    id: str
    record: Mapping[str, Any]

    @property
    def subject(self) -> str:
        """Return the id, followed by the serial or key fingerprint of an SSH revocation, if any."""
        return " ".join(filter(None, (self.id, self.record.get("serial"), self.record.get("key_fingerprint"))))


def list_revoked(later: str, folder: Path, report: Callable[[str], object]) -> Comparison:
    """Return the comparison of the restored table with `later`, the table that was used until the restore.

    TABLE_NAME must name the restored table. The comparison stores its progress in `folder`. Raises CommandError if both
    tables are the same.
    """
    if later == dynamodb.table_name():
        raise CommandError(
            f"Both tables are {later}: set TABLE_NAME to the name of the restored table, "
            "and compare it with the table that was used before."
        )
    return Comparison(later, folder, report)


def parse(line: str) -> ListedRevocation:
    """Parse a line of the output of `revocations list`. Raises CommandError."""
    account, id, end = [*line.split(maxsplit=2), "", "", ""][:3]
    if ids.is_id(account, kinds.ACCOUNTS.prefix):
        if id == account or ids.is_id(id, *DELETED, *SWITCHED_OFF):
            return ListedRevocation(account, id, {})
        if kinds.SSH_CERTIFICATE_AUTHORITIES.has(id) and (record := _parse_record(end)):
            return ListedRevocation(account, id, record)
    raise CommandError(f"This is not a line of 'revocations list': {line.strip()!r}. Nothing was revoked.")


def repeat(revocation: ListedRevocation) -> bool:
    """Repeat a revocation. Return False if the id does not exist.

    Keys and credentials are deleted. Users, bots and accounts are switched off, which can be undone. Raises
    CommandError if a revocation list is full.
    """
    account, id = revocation.account, revocation.id
    if revocation.record:
        return _revoke(Issuer(account, id, revocation.record[PUBLIC_KEY]), revocation.record)
    if id == account:
        return switching.switch_account(Change(OPERATOR), id, "off")
    if id.partition("_")[0] in SWITCHED_OFF:
        return switching.switch(account, id, "off", by=OPERATOR)
    return changes.delete(Change(OPERATOR), items.scope(account, kinds.identify(id).path), id)


@group.command("list", help="List keys, owners and certificates that this table accepts and a later table refuses.")
@click.argument("later", metavar="TABLE", help="The name of the later table.")
@progress_option
def _list(later: str, folder: Path | None) -> None:
    with open_progress(folder) as path:
        comparison = list_revoked(later, path, report)
        for line in comparison.run():
            print(line)
        comparison.remove()


@group.command("repeat", help="Revoke everything in a list, in this table.")
@click.argument("file", type=click.File(encoding="utf-8", errors="replace"), help="The list.")
def _repeat(file: TextIO) -> None:
    entries = [parse(line) for line in file if line.strip()]
    for revocation in entries:
        print(revocation.subject, "is revoked" if repeat(revocation) else "is not there", flush=True)


def _parse_record(text: str) -> dict[str, Any] | None:
    """Return the SSH revocation in the JSON text at a line's end. Return None if the text is malformed."""
    try:
        record = json.loads(text)
        crypto.packed_revocations.pack([Revocation.of(record).entry])
        crypto.public_keys.fingerprint(record[PUBLIC_KEY])
    except (MalformedRecord, ValueError, TypeError, LookupError, AttributeError):
        return None
    return dict(record)


def _revoke(authority: Issuer, record: Mapping[str, Any]) -> bool:
    try:
        revocations.revoke(Change(OPERATOR), authority, Revocation.of(record))
    except ListFull:
        raise CommandError(
            f"The revocation list of {authority.id} is full: delete revocations that are no longer needed."
        ) from None
    except AlreadyRevoked:
        pass  # an earlier run of the command has already stored this revocation
    return True
