"""Offboarding: closes a root, walks its tree and ends what it finds. A repeated call continues.

It is complete when a walk has found nothing that began after all requests with the tree's keys had been answered.
"""

import time
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from chalicelib import clock
from chalicelib.model import changes
from chalicelib.model.accounts import federated_credentials, switching
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.changes import Change
from chalicelib.model.offboarding import roots
from chalicelib.model.offboarding.makers import MakerEvents, TreeResource
from chalicelib.model.offboarding.tree_ends import MAX_KEPT, Choice, Ends, OutOfTime
from chalicelib.storage.records.items import Item

_EXPLORING = 4.0  # seconds, after which resources end before more are read
_AT_ONCE = 100  # resources that are read before their keys are locked


@dataclass(frozen=True)
class Report:
    """The result of one call. `ended` counts the ends of this call by kind."""

    complete: bool
    retry_after: int
    ended: dict[Kind, int]
    kept: dict[str, str]
    kept_more: int


def offboard(change: Change, account: str, id: str, choice: Choice) -> Report | None:
    """Offboard a user, bot, API key or federated credential, for at most 8 seconds.

    Returns None if it does not exist. `change` has the actor of all events. Raises LastAdmin, ListFull,
    MalformedRecord, aws.Unavailable.
    """
    root = roots.close(change, account, id)
    if root is None:
        return None
    is_last, walk = roots.is_settled(root), Walk(Ends(change, root, choice))
    is_whole = walk.run()
    ends = walk.ends
    is_complete = is_last and is_whole and not any(ends.counts.values())
    if is_complete and kinds.API_KEYS.has(id):
        changes.delete(change, root.scope, id)
        ends.counts[kinds.API_KEYS] = 1
    elif ends.has_locked:
        ends.root = roots.postpone(ends.root, roots.SETTLING)
    wait = 0 if is_complete or not is_whole else max(0, roots.settled_at(ends.root) - clock.seconds())
    kept = sorted(ends.kept.items())
    return Report(is_complete, wait, ends.counts, dict(kept[:MAX_KEPT]), len(kept[MAX_KEPT:]))


@dataclass
class Walk:
    """One walk of a tree. Keys are locked as soon as they are found, faster than they can make others.

    `_owners` are the owners of the makers that it has found, "" for none. `_federated` are the ids of federated
    credentials that may have issued certificates to the user or bot.
    """

    ends: Ends
    _owners: dict[str, str] = field(default_factory=dict)
    _federated: list[str] = field(default_factory=list)

    def run(self) -> bool:
        """End what the tree contains. Return False if the time did not suffice. Raises aws.Unavailable."""
        root = self.ends.root
        try:
            if roots.is_owner(root.id):
                self._end_tree(self._begin_with_owner(root))
            else:
                self._owners[root.id] = roots.owner_of(root)
                self._end_tree([])
        except OutOfTime:
            return False
        return True

    def _begin_with_owner(self, root: Item) -> list[Item]:
        """Return the keys and SSH credentials of a user or bot, inactive. Disables its federated credentials."""
        if switching.is_shown_active(root):
            self.ends.postpone()
        keys, owned = roots.shut_out(root)
        self._owners |= dict.fromkeys(keys, root.id)
        federated = roots.list_federated(root.account, root.id)
        self.ends.disable(item for item in federated if item.body.get("owner_id") == root.id)
        self._federated = [item.id for item in federated]
        return owned

    def _end_tree(self, owned: list[Item]) -> None:
        events, waiting = MakerEvents(self.ends.root.account), deque(self._owners)
        while True:
            found = self._explore(events, waiting)
            self.ends.remove(owned)
            owned = []
            self._end(found)
            if not waiting:
                break
            self.ends.check_time()
        self._end_exchanged(events)

    def _end_exchanged(self, events: MakerEvents) -> None:
        """Revoke the certificates that federated credentials issued to a user or bot. They last half a day at most."""
        since = clock.seconds() - federated_credentials.MAX_LIFETIME
        for id in self._federated:
            self.ends.check_time()
            made = events.made_by(id, since=since)
            self.ends.revoke([it for it in _of(kinds.SSH_USER_CERTIFICATES, made) if it.owner == self.ends.root.id])

    def _explore(self, events: MakerEvents, waiting: deque[str]) -> list[TreeResource]:
        """Return what the next makers made, and lock its keys. Bounded, so that each call ends something."""
        found: list[TreeResource] = []
        until = time.monotonic() + _EXPLORING
        while waiting and time.monotonic() < until:
            group: list[TreeResource] = []
            while waiting and len(group) < _AT_ONCE and time.monotonic() < until:
                group += events.made_by(waiting.popleft())
            waiting.extend(self._lock(group))
            found += group
        return found

    def _lock(self, made: Collection[TreeResource]) -> list[str]:
        """Lock the keys among some resources. Return the ids of resources that can have made others."""
        ended = [one for one in made if not self._is_kept(one)]
        self.ends.lock(_of(kinds.API_KEYS, ended))
        new = {one.id: one.owner for one in ended if one.may_make and one.id not in self._owners}
        self._owners |= new
        return list(new)

    def _end(self, made: Collection[TreeResource]) -> None:
        sorted_out: dict[bool, list[TreeResource]] = {True: [], False: []}
        for one in made:
            sorted_out[self._is_kept(one)].append(one)
        kept, ended = sorted_out[True], sorted_out[False]
        federated = kinds.FEDERATED_CREDENTIALS
        self.ends.disable_made(_of(federated, ended), keep=_of(federated, kept))
        self.ends.revoke(_of(kinds.SSH_USER_CERTIFICATES, made))
        for kind in (kinds.SSH_CREDENTIALS, kinds.API_KEYS):
            self.ends.remove_made(kind, _of(kind, ended), keep=_of(kind, kept))
        self.ends.keep_hosts(_of(kinds.SSH_HOST_CERTIFICATES, made))

    def _is_kept(self, made: TreeResource) -> bool:
        """Return whether a resource was made for another owner than its maker's, and such resources are kept."""
        owner = self._owners[made.maker]
        return self.ends.choice.others == "keep" and owner not in ("", made.owner)


def _of(kind: Kind, made: Iterable[TreeResource]) -> list[TreeResource]:
    return [one for one in made if kind.has(one.id)]
