"""Shards: scopes that divide the records of one kind, because one partition takes 500 changes a second.

A kind with many writes at all times has fixed shards, declared as `Shards`. A collection of an account gets `further`
shards when DynamoDB throttles it. Stored keys contain the numbers of shards, so another count requires a migration.
"""

import zlib
from dataclasses import dataclass

_FURTHER = 8


@dataclass(frozen=True)
class Shards:
    """`count` shards. The scope of each is the prefix and its number. The first number is `first`."""

    prefix: str
    count: int
    first: int = 0

    @property
    def scopes(self) -> list[str]:
        """Return the scopes of all shards in order."""
        return [f"{self.prefix}{number}" for number in range(self.first, self.first + self.count)]

    def number_of(self, id: str) -> int:
        """Return the number of the shard that holds a record."""
        return self.first + zlib.crc32(id.encode()) % self.count

    def scope_of(self, id: str) -> str:
        """Return the scope of the shard that holds a record."""
        return f"{self.prefix}{self.number_of(id)}"


def further(collection: str) -> Shards:
    """Return the further shards of a throttled collection.

    Its first shard has the collection's scope and the number 0.
    """
    return Shards(f"{collection}/", _FURTHER, first=1)
