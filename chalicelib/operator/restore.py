"""Revocations that a restored table lacks: list them from the later table, and repeat them.

The list is text with one revocation per line, so that the operator can read it and remove lines. Only the list needs
the later table; repeating does not.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

import click

from chalicelib import crypto, ids
from chalicelib.model import changes
from chalicelib.model.accounts import accounts, switching
from chalicelib.model.audit.trail import OPERATOR
from chalicelib.model.base import kinds, switches
from chalicelib.model.base.records import Owned
from chalicelib.model.changes import Change
from chalicelib.model.ssh import revocations, revoked
from chalicelib.model.ssh.revocations import AlreadyRevoked, Issuer, Revocation
from chalicelib.operator.command_line import CommandError, OperatorGroup
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.aws import AwsError
from chalicelib.storage.records import items, table
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.revocation_lists import ListFull

_DELETED = {kind.prefix: kind for kind in (kinds.API_KEYS, kinds.SSH_CREDENTIALS)}
_SWITCHED_OFF = {kind.prefix: kind for kind in (kinds.BOT_USERS, kinds.USERS)}
_PUBLIC_KEY = "authority_public_key"  # each line has it, because the restored table may lack the authority

group = OperatorGroup("revocations", help="Revocations made after the time to which this table was restored.")


@dataclass(frozen=True)
class ListedRevocation:
    """One line of the list.

    `id` is the revoked resource, or the SSH authority that revoked. `record` is that authority's revocation, otherwise
    empty.
    """

    account: str
    id: str
    record: Mapping[str, Any]

    @property
    def subject(self) -> str:
        """Return the id, with the serial and fingerprint of an SSH revocation."""
        return " ".join(filter(None, (self.id, self.record.get("serial"), self.record.get("key_fingerprint"))))


def list_revoked(later: str) -> list[str]:
    """Return lines for the credentials that this table admits and a later table does not.

    These are API keys, SSH credentials, active users, bots and accounts, and certificates of SSH authorities.
    Raises CommandError if the later table is unreadable or is not a later state of this one.
    """
    if later == dynamodb.table_name():
        raise CommandError(f"{later} is this table itself: TABLE_NAME must be the restored table.")
    known = table.newest(accounts.SCOPE)
    admitted = _admitted(known)
    try:
        with dynamodb.in_table(later):
            later_accounts = table.newest(accounts.SCOPE)
            later_admitted, lists = _admitted(later_accounts), list(revoked.read_lists())
    except AwsError as error:
        raise CommandError(f"The table {later} cannot be read ({error.code}).") from None
    if missing := {account.id for account in known} - {account.id for account in later_accounts}:
        raise CommandError(f"The table {later} is not a later state of this one: it lacks the account {min(missing)}.")
    lines = [_line(account, item) for (account, id), item in admitted.items() if (account, id) not in later_admitted]
    return [*lines, *(line for authority, records in lists for line in _missing(authority, records))]


def parse(line: str) -> ListedRevocation:
    """Parse a line of the list that `list_revoked` returns. Raises CommandError."""
    account, id, end = [*line.split(maxsplit=2), "", "", ""][:3]
    if ids.is_id(account, kinds.ACCOUNTS.prefix):
        if id == account or ids.is_id(id, *_DELETED, *_SWITCHED_OFF):
            return ListedRevocation(account, id, {})
        if kinds.SSH_CERTIFICATE_AUTHORITIES.has(id) and (record := _parse_record(end)):
            return ListedRevocation(account, id, record)
    raise CommandError(f"This is not a line of 'revocations list': {line.strip()!r}. Nothing was revoked.")


def repeat(revocation: ListedRevocation) -> bool:
    """Revoke again; return False if the id does not exist.

    Keys and credentials are deleted. Users, bots and accounts are switched off, which can be undone.
    Raises CommandError if a revocation list is full.
    """
    account, id = revocation.account, revocation.id
    if revocation.record:
        return _revoke(Issuer(account, id, revocation.record[_PUBLIC_KEY]), revocation.record)
    if id == account:
        return switching.switch_account(Change(OPERATOR), id, "off")
    if id.partition("_")[0] in _SWITCHED_OFF:
        return switching.switch(account, id, "off", by=OPERATOR)
    return changes.delete(Change(OPERATOR), items.scope(account, kinds.of(id).path), id)


@group.command("list", help="List what this table admits and a later one does not.")
@click.argument("later", metavar="TABLE", help="The name of the later table.")
def _list(later: str) -> None:
    for line in list_revoked(later):
        print(line)


@group.command("repeat", help="Revoke in this table what a list contains.")
@click.argument("file", type=click.File(encoding="utf-8", errors="replace"), help="The list.")
def _repeat(file: TextIO) -> None:
    listed = [parse(line) for line in file if line.strip()]
    for revocation in listed:
        print(revocation.subject, "is revoked" if repeat(revocation) else "is not there", flush=True)


def _admitted(known: Iterable[Item]) -> dict[tuple[str, str], Item]:
    """Return valid keys and credentials and active owners, by account and id."""
    admitted = {
        (account.id, item.id): item
        for account in known
        for kind in (*_DELETED.values(), *_SWITCHED_OFF.values())
        for item in table.newest(items.scope(account.id, kind.path))
    }
    admitted |= {(account.id, account.id): account for account in known}
    return {key: item for key, item in admitted.items() if kinds.of(item.id).prefix in _DELETED or switches.is_on(item)}


def _line(account: str, item: Item) -> str:
    credential = Owned.of(item.body)
    texts = [item.body["name"]] if "name" in item.body else [credential.owner_id, credential.description]
    return " ".join((account, item.id, *map(json.dumps, texts)))


def _missing(authority: Issuer, records: Iterable[Item]) -> Iterator[str]:
    """Yield lines for revocations of an authority that this table lacks."""
    for record in revoked.find_unlisted(authority, records):
        yield f"{authority.account} {authority.id} {json.dumps({**record.body, _PUBLIC_KEY: authority.public_key})}"


def _parse_record(text: str) -> dict[str, Any] | None:
    """Return the revocation at the end of a line, or None if it is malformed."""
    try:
        record = json.loads(text)
        crypto.packed_revocations.pack([Revocation.of(record).entry])
        crypto.public_keys.fingerprint(record[_PUBLIC_KEY])
    except (MalformedRecord, ValueError, TypeError, LookupError, AttributeError):
        return None
    return dict(record)


def _revoke(authority: Issuer, record: Mapping[str, Any]) -> bool:
    try:
        revocations.revoke(Change(OPERATOR), authority, Revocation.of(record))
    except ListFull:
        raise CommandError(
            f"The list of {authority.id} is full: delete revocations that are no longer needed."
        ) from None
    except AlreadyRevoked:
        pass  # by an earlier run
    return True
