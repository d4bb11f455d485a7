"""Finds revocations that another table contains, but that the table TABLE_NAME lacks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from chalicelib import clock, crypto
from chalicelib.model.base import records
from chalicelib.model.ssh.revocations import Issuer, Revocation
from chalicelib.storage.client import dynamodb
from chalicelib.storage.records import items, revocation_lists, table
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.revocation_lists import Head

Entry = tuple[Issuer, Item]
ItemKey = tuple[str, str]


def find(revoked: Sequence[Item], other: str) -> Iterator[Entry]:
    """Yield the revocations of another table that this table lacks, with their authorities.

    One read in each table gets the heads of up to 100 revocation lists. One read gets up to 100 records with entries.
    Raises aws.Unavailable.
    """
    decoded = [(item, revocation.entry) for item, revocation in records.decode_each(Revocation, revoked)]
    authorities = {item.scope: _authority(item) for item, _ in decoded}
    with dynamodb.use_table(other):
        heads = _read_heads(authorities.values())
    item_keys = [revocation_lists.key_of(authorities[item.scope], entry) for item, entry in decoded]
    own_heads, stored = _read_heads(authorities.values()), table.read_records(item_keys)
    for (item, entry), item_key in zip(decoded, item_keys, strict=True):
        authority = authorities[item.scope]
        head = heads.get(authority)
        if head and head.count and not (own_heads.get(authority) and _holds(stored, item_key, entry)):
            yield Issuer(item.account, authority, head.public_key), item


def _holds(
    stored: Mapping[ItemKey, Mapping[str, object]], item_key: ItemKey, entry: "crypto.packed_revocations.Entry"
) -> bool:
    if item_key not in stored:
        return False
    packed = revocation_lists.decode_chunk(stored[item_key]).packed
    return crypto.packed_revocations.holds(crypto.packed_revocations.expire(packed, clock.seconds()), entry)


def _authority(item: Item) -> str:
    above = items.find_parent(item.scope)
    return above[1] if above else ""


def _read_heads(authorities: Iterable[str]) -> dict[str, Head]:
    """Return the head of each authority's revocation list: the record with its properties. Ignore expired lists."""
    authority_ids = list(dict.fromkeys(authorities))
    heads_by_authority: dict[str, Head] = {}
    for start in range(0, len(authority_ids), 100):
        batch = authority_ids[start : start + 100]
        heads = revocation_lists.read_each(batch)
        heads_by_authority |= {authority: head for authority, head in zip(batch, heads, strict=True) if head}
    return heads_by_authority
