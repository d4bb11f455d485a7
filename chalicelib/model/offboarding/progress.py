"""The progress of an offboarding's walk: its search for resources to end. It is stored in the root's record until the
walk ends.
"""

from dataclasses import dataclass, field
from typing import Any

from chalicelib import clock
from chalicelib.model.base.records import Stored
from chalicelib.model.base.switches import WALK
from chalicelib.storage.records import direct_writes
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item

# The most entries in `waiting` of a stored walk. A walk with more entries is not stored: the next call begins a new
# walk. A longer record would slow down lists of users, bots and keys.
_MAX_WAITING = 3000


@dataclass(frozen=True, kw_only=True)
class Progress(Stored):
    """The state of a walk between two calls.

    - `began`: the Unix second at which the walk began
    - `choice`: the options of the first call, as one text
    - `waiting`: ids of keys and credentials, with their owners; the resources that they created must still be read
    - `before`: the id of the last API key that was read if the root is a user or bot; "" at the start, None at the end
    - `has_ended`: whether the walk has ended any resource
    - `kept`: ids of resources that were kept, with their owners
    - `kept_more`: the number of kept resources that `kept` does not list
    """

    began: int
    choice: str
    waiting: dict[str, str] = field(default_factory=dict)
    before: str | None = None
    has_ended: bool = False
    kept: dict[str, str] = field(default_factory=dict)
    kept_more: int = 0


def begin(choice: str, waiting: dict[str, str], before: str | None) -> Progress:
    """Return the progress of a walk that begins now."""
    return Progress(began=clock.seconds(), choice=choice, waiting=waiting, before=before)


def read(root: Item, choice: str) -> Progress | None:
    """Return the progress of a walk that an earlier call with the same options has begun, or None."""
    stored = root.unseen.get(WALK)
    try:
        progress = Progress.of(stored) if isinstance(stored, dict) else None
    except MalformedRecord:
        return None
    return progress if progress and progress.choice == choice else None


def write(root: Item, progress: Progress | None) -> None:
    """Store the progress of a walk, or remove the stored progress if `progress` is None. Raises aws.Unavailable."""
    record: dict[str, Any] | None = None
    if progress and len(progress.waiting) <= _MAX_WAITING:
        record = progress.to_record()
    if record or WALK in root.unseen:
        direct_writes.set_mark(root, WALK, record)
