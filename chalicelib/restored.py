"""Revocations that a table restored to an earlier time does not know: list them, and revoke again.

The list is text, a revocation to a line, so that the operator can read it and take lines out. It takes the later table
to make the list, and not to repeat it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib import crypto, ids
from chalicelib.model import accounts, changes, kinds, owners
from chalicelib.model.audit import OPERATOR
from chalicelib.model.changes import Change
from chalicelib.model.records import Owned
from chalicelib.model.ssh import revocations, revoked
from chalicelib.model.ssh.revocations import AlreadyRevoked, Issuer, Revocation
from chalicelib.operations import CommandError
from chalicelib.storage import dynamodb, items, table
from chalicelib.storage.aws import AwsError
from chalicelib.storage.decoding import MalformedRecord
from chalicelib.storage.items import Item
from chalicelib.storage.revocation_lists import ListFull

_DELETED = {kind.prefix: kind for kind in (kinds.API_KEYS, kinds.SSH_CREDENTIALS)}
_SWITCHED_OFF = {kind.prefix: kind for kind in (kinds.BOT_USERS, kinds.USERS)}
_PUBLIC_KEY = "authority_public_key"  # in a line: the restored table may not know the authority


@dataclass(frozen=True)
class Line:
    """A line of the list: an account and the id of what lets in, or an SSH authority and the record of a revocation."""

    account: str
    id: str
    record: Mapping[str, Any]

    @property
    def subject(self) -> str:
        """Return the id, and of a record the serial and the fingerprint, as one line for people."""
        return " ".join(filter(None, (self.id, self.record.get("serial"), self.record.get("key_fingerprint"))))


def revoked_by(later: str) -> list[str]:
    """Return the lines of what lets in by this table and no more by the one named, a later state of it.

    API keys and SSH credentials; users, bots and accounts that are switched on; what SSH authorities have signed.
    Raises CommandError when the later table cannot tell.
    """
    if later == dynamodb.table_name():
        raise CommandError(f"{later} is this table itself: TABLE_NAME names the one that was restored.")
    known = table.newest(accounts.SCOPE)
    admitted = _admitted(known)
    try:
        with dynamodb.in_table(later):
            still = table.newest(accounts.SCOPE)
            kept, lists = _admitted(still), list(revoked.read_lists())
    except AwsError as error:
        raise CommandError(f"The table {later} cannot be read ({error.code}).") from None
    if gone := {account.id for account in known} - {account.id for account in still}:
        raise CommandError(f"The table {later} is no later state of this one: it lacks the account {min(gone)}.")
    lines = [_line(account, item) for (account, id), item in admitted.items() if (account, id) not in kept]
    return [*lines, *(line for authority, records in lists for line in _missing(authority, records))]


def read(line: str) -> Line:
    """Parse a line of the list that `revoked_by` returns. Raises CommandError."""
    account, id, rest = [*line.split(maxsplit=2), "", "", ""][:3]
    if ids.is_id(account, kinds.ACCOUNTS.prefix):
        if id == account or ids.is_id(id, *_DELETED, *_SWITCHED_OFF):
            return Line(account, id, {})
        if kinds.SSH_CERTIFICATE_AUTHORITIES.has(id) and (record := _record(rest)):
            return Line(account, id, record)
    raise CommandError(f"Not a line of such a list: {line.strip()!r}. Nothing was revoked.")


def repeat(revocation: Line) -> bool:
    """Revoke again; False when there is nothing of that id. Raises CommandError when a list is full.

    Keys and credentials are deleted; users, bots and accounts switched off, which can be taken back.
    """
    account, id = revocation.account, revocation.id
    if revocation.record:
        return _revoke(Issuer(account, id, revocation.record[_PUBLIC_KEY]), revocation.record)
    if id == account:
        return owners.switch_account(Change(OPERATOR), id, "off")
    if id.partition("_")[0] in _SWITCHED_OFF:
        return owners.switch(account, id, "off", by=OPERATOR)
    return changes.delete(Change(OPERATOR), items.scope(account, kinds.of(id).path), id)


def _admitted(known: Iterable[Item]) -> dict[tuple[str, str], Item]:
    """Return the keys, credentials and active owners that let in, by account and id."""
    found = {
        (account.id, item.id): item
        for account in known
        for kind in (*_DELETED.values(), *_SWITCHED_OFF.values())
        for item in table.newest(items.scope(account.id, kind.path))
    }
    found |= {(account.id, account.id): account for account in known}
    return {place: item for place, item in found.items() if accounts.is_item_active(item)}


def _line(account: str, item: Item) -> str:
    credential = Owned.of(item.body)
    said = [item.body["name"]] if "name" in item.body else [credential.owner_id, credential.description]
    return " ".join((account, item.id, *map(json.dumps, said)))


def _missing(authority: Issuer, records: Iterable[Item]) -> Iterator[str]:
    """Yield the lines of what an authority had revoked and this table does not know of."""
    for record in revoked.find_unlisted(authority, records):
        yield f"{authority.account} {authority.id} {json.dumps({**record.body, _PUBLIC_KEY: authority.public_key})}"


def _record(text: str) -> dict[str, Any] | None:
    """Return the record of a revocation that a line ends with, or None where it is none."""
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
        raise CommandError(f"The list of {authority.id} is full: delete revocations that it needs no more.") from None
    except AlreadyRevoked:
        pass  # by an earlier run
    return True
