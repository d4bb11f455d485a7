"""`accounts delete`: deletes an account with all its records. It can be stopped at any time and run again."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from chalicelib import edges, ids, resources
from chalicelib.http.errors import ApiError
from chalicelib.http.resource import EditableResource
from chalicelib.model.accounts import accounts as stored_accounts
from chalicelib.model.accounts import api_keys, federated_credentials, switching
from chalicelib.model.audit.trail import OPERATOR, operator_event
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.changes import Change
from chalicelib.model.tenants import portable, traces
from chalicelib.model.tenants.record_classes import UnclassifiedRecord
from chalicelib.model.tenants.traces import Events
from chalicelib.model.tls import challenge_records
from chalicelib.model.tunnels import tunnels
from chalicelib.operator.bulk import segments
from chalicelib.operator.bulk.segments import Records, ScanFolder
from chalicelib.operator.command_line import (
    CommandError,
    OperatorCommand,
    UnknownId,
    account_argument,
    reason_option,
)
from chalicelib.operator.tenants.exporting import select
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import change_log, item_keys, items, shards, table, writes
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.references import InUse
from chalicelib.storage.records.revocation_lists import ListFull

# seconds after which all earlier requests have ended, and edge hosts have applied the changes of these requests
SETTLED = change_log.OVERLAP + 30
_ROUNDS = 10
# The order in which kinds are deleted: credentials first, and each kind after all kinds that refer to it.
ORDER = (
    *(kinds.API_KEYS, kinds.FEDERATED_CREDENTIALS, kinds.SSH_CREDENTIALS, kinds.TUNNELS),
    *(kinds.HTTPS_EDGES, kinds.TLS_EDGES, kinds.TCP_EDGES, kinds.RESERVED_DOMAINS, kinds.RESERVED_ADDRS),
    *(kinds.IP_POLICY_RULES, kinds.IP_POLICIES),
    *(kinds.WEIGHTED_BACKENDS, kinds.TUNNEL_GROUPS, kinds.HTTP_RESPONSE_BACKENDS),
    *(kinds.SSH_USER_CERTIFICATES, kinds.SSH_HOST_CERTIFICATES, kinds.SSH_CERTIFICATE_AUTHORITIES),
    *(kinds.TLS_CERTIFICATES, kinds.CERTIFICATE_AUTHORITIES, kinds.BOT_USERS, kinds.USERS),
)
_OWNERS = (kinds.BOT_USERS, kinds.USERS)


@dataclass
class Deletion:
    """The deletion of an account. `ended` counts the deleted resources by kind. `unrevoked` lists certificates that
    stay valid, because the revocation list of their authority is full.
    """

    account: str
    events: Events
    report: Callable[[str], object]
    sleep: Callable[[float], None] = time.sleep
    ended: Counter[str] = field(default_factory=Counter)
    unrevoked: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Delete the account with all its records. Raises UnknownId, CommandError, aws.Unavailable."""
        item = table.find(stored_accounts.SCOPE, self.account)
        if item:
            switching.switch_account(Change(OPERATOR), self.account, "off")
            for kind in ORDER:
                self._end_all(kind)
        count = self._sweep()
        if item:
            self._remove_account()
        elif not count and not any(traces.find_changes(self.account)):
            raise UnknownId(f"There is no account {self.account}.")
        self.report(f"Waiting {SETTLED} seconds for requests and edge hosts …")
        self.sleep(SETTLED)
        self._prove()

    def _end_all(self, kind: Kind) -> None:
        """Delete the resources of a kind. Skip resources to which other resources still refer.

        `_sweep` later removes the records of the skipped resources.
        """
        remove, scope = _list_removers()[kind], items.scope(self.account, kind.path)
        for item in _list_items(scope):
            try:
                if item.is_live and remove(Change(OPERATOR), item.scope, item.id):
                    self.ended[kind.name] += 1
            except ListFull:
                self.unrevoked.append(item.id)
            except (InUse, ApiError):
                continue
            _remove_records_without_account(item)

    def _remove_account(self) -> None:
        digest = portable.digest(self.account)
        event = operator_event("account.delete", self.account if self.events == "keep" else digest)

        def attempt() -> None:
            if item := table.find(stored_accounts.SCOPE, self.account):
                Change(OPERATOR).remove(item).add(event).commit()

        writes.retry(attempt)

    def _prove(self) -> None:
        """Repeat `_sweep` until no record is left. Raises CommandError if another process adds more records."""
        for _ in range(_ROUNDS):
            count = self._sweep() + traces.forget_changes(self.account)
            if not count:
                return
        raise CommandError(f"Another process still writes records of {self.account}. Run the command again.")

    def _sweep(self) -> int:
        """Remove all records that contain the account's id. Return their number."""
        with TemporaryDirectory() as folder:
            scan = ScanFolder(Path(folder) / "scan", {})
            segments.scan(scan, select(self.account), self._remove_page, self.report)
            return sum(1 for _ in scan.lines())

    def _remove_page(self, records: Records) -> Iterator[str]:
        for record in records:
            try:
                is_kept = self.events == "keep" and traces.is_trail(record)
                # Two records are not removed here: the account's own record, and the unique key of its name.
                # `_remove_account` removes both last. Until then, no other account can take the name.
                if not is_kept and record["scope"] != stored_accounts.SCOPE and not _names_account(record["scope"]):
                    traces.remove(record, self.account)
                    yield "1"
            except UnclassifiedRecord as unknown:
                raise CommandError(
                    f"This version does not know the record {unknown}, which contains {self.account}, and has not "
                    "changed "
                    "the record: run the command of the newest version."
                ) from None


def _names_account(scope: str) -> bool:
    return scope.startswith("account_name#")


def _list_items(scope: str) -> Iterator[Item]:
    """Yield all items of a collection.

    `scope` is the partition key of the collection, or of its first shard if it has several shards.
    """
    further = shards.list_further(scope).scopes if item_keys.is_sharded(scope) else []
    for part in (scope, *further):
        yield from table.read_all(part)


def _list_removers() -> Mapping[Kind, Callable[[Change, str, str], bool]]:
    """Return the function that deletes a resource, for each kind."""
    served = (*resources.load_all(), *edges.load_all())
    removers = {resource.kind: resource.remove for resource in served if isinstance(resource, EditableResource)}
    owners = {kind: partial(switching.remove, may_be_last=True) for kind in _OWNERS}
    return {**removers, **owners, kinds.TUNNELS: _close_tunnel}


def _close_tunnel(change: Change, scope: str, id: str) -> bool:
    return tunnels.close_tunnel(scope.partition("#")[0], id, by=change.by)


def _remove_records_without_account(item: Item) -> None:
    """Remove the records of a deleted resource that do not contain the account's id.

    `_sweep` cannot find these records.
    """
    kind = kinds.identify(item.id)
    if kind is kinds.API_KEYS:
        dynamodb.do(Write.delete(api_keys.key_of(item.id).scope, "denied"))
    elif kind is kinds.FEDERATED_CREDENTIALS:
        dynamodb.do(Write.delete(federated_credentials.key_of(item.id).scope, "refused"))
    elif kind is kinds.RESERVED_DOMAINS:
        challenge_records.remove(str(item.body.get("domain", "")))


@click.command("delete", cls=OperatorCommand, help="Delete an account with all its records. This cannot be undone.")
@account_argument
@click.option(
    "--events",
    type=click.Choice(["keep", "delete"]),
    required=True,
    help="Whether to keep the account's audit events, and the history of its names, until they expire.",
)
@click.option("--yes", is_flag=True, help="Do not ask for the account's id again.")
@reason_option
def delete(account: str, events: Events, yes: bool) -> None:
    """Run the command `accounts delete`."""
    if not ids.is_id(account, kinds.ACCOUNTS.prefix):
        raise UnknownId(f"There is no account {account}.")
    if not yes:
        _confirm(account)
    deletion = Deletion(account, events, partial(print, file=sys.stderr, flush=True))
    deletion.run()
    counts = ", ".join(f"{count} {name}" for name, count in deletion.ended.items()) or "nothing"
    print(f"{account} is deleted. Ended with it: {counts}.")
    for id in deletion.unrevoked:
        print(
            f"{id} was not revoked, because the revocation list of its authority is full: replace the authority on "
            "servers."
        )
    print("No record with the account's id is left" + (", except audit events." if events == "keep" else "."))


def _confirm(account: str) -> None:
    if not sys.stdin.isatty():
        raise CommandError("There is no terminal to confirm the deletion: add --yes.")
    if click.prompt(f"All of {account} will be deleted. Type its id again", err=True).strip() != account:
        raise CommandError("This is not the id of the account: nothing was deleted.")
