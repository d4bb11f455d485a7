"""Shards: several partitions for the records of one kind. One partition takes only 500 changes a second.

A kind with many writes at all times has a fixed number of shards, declared as `Shards`. A collection of an account gets
more shards (see `list_further`) when DynamoDB throttles it. Stored keys contain the numbers of shards, so another count
requires a migration.
"""

import zlib
from dataclasses import dataclass

_FURTHER = 8


@dataclass(frozen=True)
class Shards:
    """The partition keys of `count` shards: the prefix followed by a number. The lowest number is `first`."""

    prefix: str
    count: int
    first: int = 0

    @property
    def scopes(self) -> list[str]:
        """Return the partition keys of all shards in order."""
        return [f"{self.prefix}{number}" for number in range(self.first, self.first + self.count)]

    def number_of(self, id: str) -> int:
        """Return the number of the shard for a record's id."""
        return self.first + zlib.crc32(id.encode()) % self.count

    def scope_of(self, id: str) -> str:
        """Return the partition key of the shard that holds a record."""
        return f"{self.prefix}{self.number_of(id)}"


def list_further(collection: str) -> Shards:
    """Return the additional shards of a collection that DynamoDB has throttled.

    The collection's first shard is not among them. It has the number 0, and the partition key of the undivided
    collection.
    """
    return Shards(f"{collection}/", _FURTHER, first=1)
