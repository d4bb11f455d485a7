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
from tests.storage.conflicting import Conflicts, conflicting
from tests.transports import Client

WRITERS = 32


def at_once(act: Callable[[int], object]) -> Conflicts:
    with conflicting() as conflicts, ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(act, range(WRITERS)))
    return conflicts


def test_certificates_of_one_account_do_not_conflict(admin: Client) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    asked = {"ssh_certificate_authority_id": authority, "public_key": public_key()}
    made = admin.create("/ssh_user_certificates", asked)
    signed = table.read(scope := items.scope(admin.account, "/ssh_user_certificates"), made["id"])
    assert signed is not None
    body = signed.body
    conflicts = at_once(lambda _: Change(OPERATOR).put(Item(scope, ids.new("sucrt"), body)).commit())
    assert (conflicts.done, conflicts.met) == (WRITERS, {})


def test_keys_of_one_owner_do_not_conflict(admin: Client) -> None:
    conflicts = at_once(lambda number: keys.issue_key(admin.account, admin.user, f"key {number}"))
    assert (conflicts.done, conflicts.met) == (WRITERS, {})
    assert len(list(admin.all("/api_keys", "keys"))) == WRITERS + 1
