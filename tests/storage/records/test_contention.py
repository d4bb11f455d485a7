"""Many writers of one account at once, in a store with DynamoDB's rules of conflict: none fails."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from chalicelib import ids
from chalicelib.model.audit.trail import OPERATOR
from chalicelib.model.changes import Change
from chalicelib.operator import keys
from chalicelib.storage.records import items, table
from chalicelib.storage.records.items import Item
from tests.samples import public_key
from tests.storage.conflicting import Conflicts, simulate_conflicts
from tests.transports import Client

WRITERS = 32


def at_once(act: Callable[[int], object]) -> Conflicts:
    with simulate_conflicts() as conflicts, ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(act, range(WRITERS)))
    return conflicts


def test_certificates_of_one_account_do_not_conflict(admin: Client) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    fields = {"ssh_certificate_authority_id": authority, "public_key": public_key()}
    certificate = admin.create("/ssh_user_certificates", fields)
    stored_item = table.read(scope := items.scope(admin.account, "/ssh_user_certificates"), certificate["id"])
    assert stored_item is not None
    body = stored_item.body
    conflicts = at_once(lambda _: Change(OPERATOR).put(Item(scope, ids.new("sucrt"), body)).commit())
    assert (conflicts.transaction_count, conflicts.conflict_counts) == (WRITERS, {})


def test_keys_of_one_owner_do_not_conflict(admin: Client) -> None:
    conflicts = at_once(lambda number: keys.issue_key(admin.account, admin.user, f"key {number}"))
    assert (conflicts.transaction_count, conflicts.conflict_counts) == (WRITERS, {})
    assert len(list(admin.all("/api_keys", "keys"))) == WRITERS + 1
