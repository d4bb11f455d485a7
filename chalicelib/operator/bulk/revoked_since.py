"""Finds credentials, owners and accounts that are active in a restored table, but not in a later table.

A table "admits" a credential that is not suspended, and an active owner or account. Parallel scans read both tables.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from chalicelib.model.accounts import accounts
from chalicelib.model.audit import reading, trail
from chalicelib.model.base import kinds, records, switches
from chalicelib.model.base.records import Owned
from chalicelib.model.ssh import unlisted
from chalicelib.model.tenants import portable
from chalicelib.operator.bulk import segments
from chalicelib.operator.bulk.segments import Records, ScanFolder, Selection
from chalicelib.operator.command_line import CommandError
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.aws import AwsError
from chalicelib.storage.records import table
from chalicelib.storage.records.items import Item

DELETED = {kind.prefix: kind for kind in (kinds.API_KEYS, kinds.SSH_CREDENTIALS, kinds.FEDERATED_CREDENTIALS)}
SWITCHED_OFF = {kind.prefix: kind for kind in (kinds.BOT_USERS, kinds.USERS)}
# The field with the authority's public key in a line about an SSH revocation. The line must contain this key, because
# the restored table may lack the authority.
PUBLIC_KEY = "authority_public_key"
_SHOWN = ("name", "active", "owner_id", "description", "enabled")
_PROJECTION = f"#scope, #id, #unseen, #expires, #lease, {', '.join(f'#body.#{name}' for name in _SHOWN)}"
_PREFIXES = [*DELETED, *SWITCHED_OFF]


@dataclass(frozen=True)
class Comparison:
    """The comparison of the restored table, which TABLE_NAME names, with a later table.

    `later` is the name of the later table. `folder` contains files with the progress of the comparison.
    """

    later: str
    folder: Path
    report: Callable[[str], object]

    def run(self) -> Iterator[str]:
        """Yield a line for each credential, owner, account and revocation in which the tables differ.

        Raises CommandError if the later table is unreadable or is not a later state of the restored table.
        """
        purpose = {"command": "revocations list", "table": dynamodb.table_name(), "later": self.later}
        credentials_scan = ScanFolder(self.folder / "admitted", purpose)
        revocations_scan = ScanFolder(self.folder / "revoked", purpose)
        with self._use_later_table():
            # Read the ids of deleted accounts now, and once. Later, each thread of the scan would read them.
            _ = self._deleted
        segments.scan(credentials_scan, _SELECTED, self._compare, self.report)
        with self._use_later_table():
            segments.scan(revocations_scan, _REVOCATIONS, self._compare_lists, self.report)
        yield from credentials_scan.lines()
        yield from revocations_scan.lines()

    def remove(self) -> None:
        """Remove the progress files of the comparison."""
        for name in ("admitted", "revoked"):
            ScanFolder(self.folder / name, {}).remove()

    def _compare(self, page: Records) -> Iterator[str]:
        """Yield a line for each item in `page` that the later table does not show as active.

        `page` is a page of the restored table.
        """
        active_items = [item for item in table.skip_malformed(map(Item.from_record, page)) if _is_admitted(item)]
        with self._use_later_table():
            later_records = table.read_records(item.key for item in active_items)
        for item in active_items:
            later = later_records.get(item.key)
            if item.scope == accounts.SCOPE and later is None:
                self._require_deletion(item.id)
            if not (later and any(map(_is_admitted, table.skip_malformed([Item.from_record(later)])))):
                yield _format_line(item)

    def _compare_lists(self, page: Records) -> Iterator[str]:
        """Yield a line for each SSH revocation that the restored table lacks. `page` is a page of the later table."""
        live = [item for item in table.skip_malformed(map(Item.from_record, page)) if item.is_live]
        with dynamodb.use_table(self._restored_table):
            for authority, item in unlisted.find(live, self.later):
                record = json.dumps({**item.body, PUBLIC_KEY: authority.public_key})
                yield f"{authority.account} {authority.id} {record}"

    def _require_deletion(self, account: str) -> None:
        """Raise CommandError if the later table has no audit event about the deletion of an account."""
        if not {account, portable.digest(account)} & self._deleted:
            raise CommandError(
                f"The table {self.later} is not a later state of the restored table: it lacks the account {account}. "
                "Name the table that was used until the restore."
            )

    @cached_property
    def _deleted(self) -> frozenset[str]:
        """Return the ids of deleted accounts, or digests of these ids. They are read from events in the later table."""
        events = (event for _, event in records.decode_each(trail.Event, reading.read_operator_events()))
        return frozenset(event.resource_id for event in events if event.action == "account.delete")

    @cached_property
    def _restored_table(self) -> str:
        return dynamodb.table_name()

    @contextmanager
    def _use_later_table(self) -> Iterator[None]:
        """In a `with` block, read from the later table instead of the restored table.

        Raises CommandError if the later table cannot be read.
        """
        _ = self._restored_table
        try:
            with dynamodb.use_table(self.later):
                yield
        except AwsError as error:
            raise CommandError(
                f"The table {self.later} cannot be read ({error.code}): check its name, region and your permissions."
            ) from None


def _is_admitted(item: Item) -> bool:
    """Return whether a credential exists and is not suspended, or whether an owner or account is active."""
    if not item.is_live or not item.body:
        return False
    if kinds.FEDERATED_CREDENTIALS.has(item.id):
        return item.body.get("enabled", True) is True
    return switches.is_on(item)


def _format_line(item: Item) -> str:
    credential = Owned.of({name: value for name, value in item.body.items() if name in ("owner_id", "description")})
    texts = [item.body["name"]] if "name" in item.body else [credential.owner_id, credential.description]
    account = item.id if item.scope == accounts.SCOPE else item.account
    return " ".join((account, item.id, *map(json.dumps, texts)))


def _select() -> Selection:
    starts = {f"prefix{number}": f"{prefix}_" for number, prefix in enumerate(_PREFIXES)}
    texts = [f"begins_with(#id, :{name})" for name in starts]
    values: Mapping[str, Any] = {**starts, "accounts": accounts.SCOPE}
    expressions = {
        "FilterExpression": " OR ".join([*texts, "#scope = :accounts"]),
        "ProjectionExpression": _PROJECTION,
    }
    return Selection(values, expressions)


_SELECTED = _select()
_REVOCATIONS = Selection(
    {"prefix": f"{kinds.SSH_REVOCATIONS.prefix}_"}, {"FilterExpression": "begins_with(#id, :prefix)"}
)
