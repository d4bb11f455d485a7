"""Revocations of many certificates of one authority, 30 per transaction.

The entries of a revocation list are in 64 records (chunks). Serials are random, so the entries of a transaction belong
to many different chunks.
"""

from collections.abc import Sequence

from chalicelib import clock, crypto
from chalicelib.model.changes import Change
from chalicelib.model.ssh import revocations
from chalicelib.model.ssh.revocations import Issuer, Revocation
from chalicelib.storage.records import revocation_lists
from chalicelib.storage.records.revocation_lists import Chunk, ListFull

# the most revocations per transaction: each revocation writes a record, an audit event and at most one chunk, and a
# transaction of DynamoDB can have 100 writes
AT_ONCE = 30


def is_revoked(chunks: Sequence[Chunk], revocation: Revocation) -> bool:
    """Return whether the chunks of a revocation list contain a revocation. Raises MalformedRecord."""
    entry = revocation.entry
    return any(
        revocation_lists.is_for(chunk, entry) and crypto.packed_revocations.holds(chunk.packed, entry)
        for chunk in chunks
    )


def revoke(change: Change, issuer: Issuer, group: Sequence[Revocation]) -> int:
    """Store at most 30 revocations in one transaction. Return how many of them are new to the list.

    Each revocation has a separate audit event. Raises ListFull, MalformedRecord, aws.Unavailable.
    """
    try:
        return revocations.retry(lambda: _attempt(change, issuer, group))
    except ListFull:  # try again after the removal of expired entries from the list
        head = revocation_lists.read(issuer.id)
        if head is None or not revocation_lists.compact(head):
            raise
    return revocations.retry(lambda: _attempt(change, issuer, group))


def _attempt(change: Change, issuer: Issuer, group: Sequence[Revocation]) -> int:
    now = clock.seconds()
    head, chunks = revocation_lists.read_for(issuer.id, [revocation.entry for revocation in group])
    live = [(chunk, crypto.packed_revocations.expire(chunk.packed, now)) for chunk in chunks]
    new = {chunk.id: _list_missing(chunk, packed, group) for chunk, packed in live}
    changed = [
        (chunk, crypto.packed_revocations.add(packed, *(revocation.entry for revocation in new[chunk.id])))
        for chunk, packed in live
        if new[chunk.id]
    ]
    if not changed:
        return 0
    records = [revocations.build_record(issuer, revocation) for added in new.values() for revocation in added]
    for record in records:
        change = change.put(record)
    change.add(*revocation_lists.rewrite_each(head or revocations.new_head(issuer), changed)).commit()
    return len(records)


def _list_missing(chunk: Chunk, packed: bytes, group: Sequence[Revocation]) -> list[Revocation]:
    """Return the revocations of `group` that a chunk (a part of the revocation list) lacks.

    `packed` are the entries of the chunk that have not expired. Revocations of other chunks are ignored.
    """
    return [
        revocation
        for revocation in group
        if revocation_lists.is_for(chunk, revocation.entry)
        and not crypto.packed_revocations.holds(packed, revocation.entry)
    ]
