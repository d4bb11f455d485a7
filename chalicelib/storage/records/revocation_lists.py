"""Stored revocation lists of SSH authorities. A list is a head (one record with its properties), and 64 chunks.

The chunks are records with the list's entries (its revocations), packed as bytes. A revocation rewrites one chunk: a
few KB, even in the largest list. The partition key of a list does not contain the account's id, because servers fetch a
list by the authority's id only. The head contains the account's id.
"""

import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chalicelib import clock, crypto
from chalicelib.storage.client import dynamodb, queries
from chalicelib.storage.client.dynamodb import Condition, TransactionFailed, Write
from chalicelib.storage.records import decoding
from chalicelib.storage.records.decoding import MalformedRecord

MAX_ENTRIES = 100_000
HEAD = "head"
_MAX_CHUNK = 350_000  # the most bytes of a chunk's entries, because a DynamoDB record has at most 400 KB


class ListFull(Exception):
    """A revocation list is full: more entries would exceed MAX_ENTRIES, or the size of a record."""


@dataclass(frozen=True)
class Head:
    """The properties of a list, which can be read without its entries.

    `count` includes expired entries that were not removed yet. Every change sets a random `stamp` ("" before the first
    write) and increments `version`. `expires` is the Unix second at which the list expires.
    """

    authority: str
    account: str
    public_key: str
    count: int = 0
    version: int = 0
    stamp: str = ""
    changed_at: int = 0
    expires: int | None = None


@dataclass(frozen=True)
class Chunk:
    """One of the 64 records with the entries of a revocation list. `packed` are the entries as bytes."""

    authority: str
    id: str
    packed: bytes = b""
    stamp: str = ""


@dataclass(frozen=True)
class _HeadBody:
    account: str
    public_key: str


@dataclass(frozen=True)
class _HeadRecord:
    """The record of a list's head, as the table stores it."""

    scope: str
    body: _HeadBody
    count: int
    revision: int
    stamp: str
    changed_at: int
    expires: int | None = None


@dataclass(frozen=True)
class _Packed:
    """The record of a chunk, if a query reads only the attribute with the entries."""

    packed: bytes


@dataclass(frozen=True)
class _ChunkRecord(_Packed):
    """The record of a chunk, as the table stores it."""

    scope: str
    id: str
    stamp: str


def read(authority: str) -> Head | None:
    """Return the head of an authority's revocation list, or None. Makes one read. Raises aws.Unavailable."""
    return _decode_live(dynamodb.get(_scope(authority), HEAD))


def read_each(authorities: Iterable[str]) -> list[Head | None]:
    """Return the head of each authority's list, or None for a missing list. Makes one read. Raises aws.Unavailable."""
    return [
        _decode_live(record) for record in dynamodb.get_each(*((_scope(authority), HEAD) for authority in authorities))
    ]


def chunk_of(authority: str, entry: "crypto.packed_revocations.Entry") -> Chunk:
    """Return the chunk for an entry. It is empty if the table has none. Makes one read. Raises aws.Unavailable."""
    scope, id = key_of(authority, entry)
    record = dynamodb.get(scope, id)
    return decode_chunk(record) if record else Chunk(authority, id)


def read_for(authority: str, entries: Iterable["crypto.packed_revocations.Entry"]) -> tuple[Head | None, list[Chunk]]:
    """Return the head of a list, and the chunks in which some entries are stored.

    Makes one read, so the entries can have at most 99 chunks. Raises aws.Unavailable.
    """
    keys = list(dict.fromkeys(key_of(authority, entry) for entry in entries))
    head, *chunk_records = dynamodb.get_each((_scope(authority), HEAD), *keys)
    stored = zip(keys, chunk_records, strict=True)
    return _decode_live(head), [decode_chunk(record) if record else Chunk(authority, id) for (_, id), record in stored]


def is_for(chunk: Chunk, entry: "crypto.packed_revocations.Entry") -> bool:
    """Return whether `chunk` is the chunk in which an entry is stored."""
    return chunk.id == _id_of(entry)


def key_of(authority: str, entry: "crypto.packed_revocations.Entry") -> tuple[str, str]:
    """Return the primary key of the chunk in which an entry is stored."""
    return _scope(authority), _id_of(entry)


def read_chunks(authority: str) -> list[Chunk]:
    """Return the stored chunks of a list. A list of 100,000 serials takes two reads. Raises aws.Unavailable."""
    pages = queries.read_pages(
        {"scope": _scope(authority), "head": HEAD},
        limit=None,
        KeyConditionExpression="#scope = :scope AND #id < :head",
    )
    return [decode_chunk(record) for page in pages for record in page]


def read_packed(authority: str) -> list[bytes]:
    """Return the packed entries of each stored chunk of a list. Raises aws.Unavailable."""
    pages = queries.read_pages(
        {"scope": _scope(authority), "head": HEAD},
        limit=None,
        KeyConditionExpression="#scope = :scope AND #id < :head",
        ProjectionExpression="#packed",
    )
    return [decoding.decode(_Packed, record).packed for page in pages for record in page]


def begin(head: Head) -> Write:
    """Return the write of a new list's head. It fails if a list exists that has not expired."""
    key = {"scope": _scope(head.authority), "id": HEAD}
    contents = {"body": {"account": head.account, "public_key": head.public_key}, "count": head.count, "revision": 1}
    absent = Condition("attribute_not_exists(#id) OR #expires <= :now", {"now": clock.seconds()})
    return Write.put({**key, **contents, **_marks(), **_expiry(head.expires)}, absent)


def rewrite(head: Head, chunk: Chunk, packed: bytes) -> list[Write]:
    """Return the writes that replace the entries of a chunk. Raises ListFull.

    The writes fail if the chunk has changed since it was read. If the list has an expiry, or if it has no head yet, the
    writes also fail if the head has changed.
    """
    return rewrite_each(head, [(chunk, packed)])


def rewrite_each(head: Head, changed: Sequence[tuple[Chunk, bytes]]) -> list[Write]:
    """Return the writes that replace the entries of some chunks, as `rewrite` does."""
    count = crypto.packed_revocations.count
    if max(len(packed) for _, packed in changed) > _MAX_CHUNK:
        raise ListFull
    added = sum(count(packed) - count(chunk.packed) for chunk, packed in changed)
    if added > 0 and head.count + added > MAX_ENTRIES:
        raise ListFull
    ends = [crypto.packed_revocations.last_end(packed) for _, packed in changed]
    return [*(_store(chunk, packed) for chunk, packed in changed), _count(head, _find_latest(ends), added)]


def compact(head: Head) -> bool:
    """Remove expired entries and correct the count. Return False if the list has changed meanwhile.

    Raises aws.Unavailable.
    """
    now, count = clock.seconds(), 0
    writes: list[Write] = []
    for chunk in read_chunks(head.authority):
        packed = crypto.packed_revocations.expire(chunk.packed, now)
        count += crypto.packed_revocations.count(packed)
        if packed != chunk.packed:
            writes.append(_store(chunk, packed))
    try:
        dynamodb.transact([*writes, _update(head, sets={"count": count}, condition=_require_unchanged(head))])
    except TransactionFailed:
        return False
    return True


def end(head: Head, chunks: Iterable[Chunk]) -> Write:
    """Return the write that lets the list of a deleted authority expire. It expires together with its last entry."""
    now = clock.seconds()
    ends = [crypto.packed_revocations.last_end(chunk.packed) for chunk in chunks]
    last = _find_latest(ends)
    if last is not None and last <= now:
        return Write.delete(_scope(head.authority), HEAD, _require_unchanged(head))
    return _update(head, sets={"expires": last}, condition=_require_unchanged(head))


def _store(chunk: Chunk, packed: bytes) -> Write:
    """Return the write of a chunk. It fails if the chunk has changed since it was read."""
    scope = _scope(chunk.authority)
    same = Condition("#stamp = :was", {"was": chunk.stamp}) if chunk.stamp else Condition("attribute_not_exists(#id)")
    if chunk.stamp and not crypto.packed_revocations.count(packed):
        return Write.delete(scope, chunk.id, same)
    sets = {"packed": packed, "expires": crypto.packed_revocations.last_end(packed), **_marks()}
    return Write.update(scope, chunk.id, same, sets=sets, adds={"revision": 1})


def _count(head: Head, end: int | None, added: int) -> Write:
    """Return the write that updates the head of a list when its chunks change.

    `added` is the number of added entries. `end` is the Unix second at which the last entry of these chunks ends, or
    None if an entry has no end. If the list has no expiry, several processes can change the head at the same time. If
    the list has an expiry, the write fails if the head has changed since it was read.
    """
    if head.expires is None and head.stamp:
        lasting = "attribute_exists(#id) AND attribute_not_exists(#expires)"
        room = Condition(f"{lasting} AND #count <= :most", {"most": MAX_ENTRIES - added})
        return _update(head, sets={}, condition=room if added > 0 else Condition(lasting), added=added)
    expires = None if head.expires is None or end is None else max(head.expires, end)
    if not head.stamp:
        return begin(replace(head, count=added, expires=expires))
    return _update(head, sets={"expires": expires}, condition=_require_unchanged(head), added=added)


def _update(head: Head, *, sets: Mapping[str, Any], condition: Condition, added: int = 0) -> Write:
    adds = {"revision": 1, **({} if "count" in sets else {"count": added})}
    return Write.update(_scope(head.authority), HEAD, condition, sets={**sets, **_marks()}, adds=adds)


def _find_latest(ends: Sequence[int | None]) -> int | None:
    """Return the latest of some ends (Unix seconds). None means never, so it is the latest. Return 0 without ends."""
    return None if None in ends else max((end for end in ends if end is not None), default=0)


def _require_unchanged(head: Head) -> Condition:
    return Condition("#stamp = :was", {"was": head.stamp})


def _marks() -> dict[str, Any]:
    """Return the attributes that every write sets: a new stamp and the current time.

    Stamps are random. A counter could repeat: after a restore from a backup, the same stamp would mean other entries.
    """
    return {"stamp": secrets.token_hex(8), "changed_at": clock.seconds()}


def _expiry(end: int | None) -> dict[str, int]:
    return {} if end is None else {"expires": end}


def _id_of(entry: "crypto.packed_revocations.Entry") -> str:
    """Return the id of an entry's chunk. A digest spreads consecutive serials over all chunks."""
    key = entry[0]
    content = key if isinstance(key, bytes) else key.to_bytes(8)
    return f"{hashlib.sha256(content).digest()[0] >> 2:02x}"


def _scope(authority: str) -> str:
    return f"krl#{authority}"


def _decode_live(record: Mapping[str, Any] | None) -> Head | None:
    head = _head(record) if record else None
    return head if head and (head.expires is None or head.expires > clock.seconds()) else None


def _head(record: Mapping[str, Any]) -> Head:
    stored = decoding.decode(_HeadRecord, record)
    authority, body = stored.scope.removeprefix("krl#"), stored.body
    versions = (stored.revision, stored.stamp, stored.changed_at)
    return Head(authority, body.account, body.public_key, stored.count, *versions, stored.expires)


def decode_chunk(record: Mapping[str, Any]) -> Chunk:
    """Return the chunk of a record. Raises MalformedRecord: a damaged chunk must not be read as a shorter one."""
    chunk = decoding.decode(_ChunkRecord, record)
    try:
        crypto.packed_revocations.count(chunk.packed)
    except ValueError:
        raise MalformedRecord(_ChunkRecord.__name__, "packed", "must be a complete packed revocation list") from None
    return Chunk(chunk.scope.removeprefix("krl#"), chunk.id, chunk.packed, chunk.stamp)
