"""Offboarding: closes a root, walks its tree and ends what it finds. A repeated call continues.

It is complete when a walk has found nothing that began after all requests with the tree's keys had been answered.
"""

import time
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from chalicelib import clock
from chalicelib.model import changes
from chalicelib.model.accounts import federated_credentials
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.changes import Change
from chalicelib.model.offboarding import roots
from chalicelib.model.offboarding.makers import MakerEvents, TreeResource
from chalicelib.model.offboarding.tree_ends import MAX_KEPT, Choice, Ends, OutOfTime
from chalicelib.storage.records.items import Item

_GATHERED = 300  # resources, or
_GATHERING = 2.0  # seconds, after which what was found ends before more is read


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
    elif ends.counts.get(kinds.API_KEYS):
        ends.root = roots.postpone(ends.root, roots.SETTLING)
    wait = 0 if is_complete or not is_whole else max(0, roots.settled_at(ends.root) - clock.seconds())
    kept = list(ends.kept.items())
    return Report(is_complete, wait, ends.counts, dict(kept[:MAX_KEPT]), len(kept[MAX_KEPT:]))


@dataclass
class Walk:
    """One walk of a tree.

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
                self._end_owned(root)
            else:
                self._owners[root.id] = roots.owner_of(root)
            self._end_tree(MakerEvents(root.account))
        except OutOfTime:
            return False
        return True

    def _end_owned(self, root: Item) -> None:
        """End the keys, SSH credentials and federated credentials of a user or bot."""
        keys, owned = roots.shut_out(root)
        self._owners |= dict.fromkeys(keys, root.id)
        self.ends.remove(owned)
        federated = roots.list_federated(root.account, root.id)
        self.ends.disable(item for item in federated if item.body.get("owner_id") == root.id)
        self._federated = [item.id for item in federated]

    def _end_tree(self, events: MakerEvents) -> None:
        self._end_exchanged(events)
        waiting = deque(self._owners)
        while waiting:
            waiting.extend(self._end(self._gather(events, waiting)))

    def _end_exchanged(self, events: MakerEvents) -> None:
        """Revoke the certificates that federated credentials issued to a user or bot. They last half a day at most."""
        since = clock.seconds() - federated_credentials.MAX_LIFETIME
        for id in self._federated:
            self.ends.check_time()
            made = events.made_by(id, since=since)
            self.ends.revoke([it for it in _of(kinds.SSH_USER_CERTIFICATES, made) if it.owner == self.ends.root.id])

    def _gather(self, events: MakerEvents, waiting: deque[str]) -> list[TreeResource]:
        """Return what the next makers made. Bounded, so that each call ends something."""
        found: list[TreeResource] = []
        until = time.monotonic() + _GATHERING
        while waiting and len(found) < _GATHERED and time.monotonic() < until:
            self.ends.check_time()
            found += events.made_by(waiting.popleft())
        return found

    def _end(self, made: Collection[TreeResource]) -> list[str]:
        """End some resources and return the ids of those that can have made others."""
        sorted_out: dict[bool, list[TreeResource]] = {True: [], False: []}
        for one in made:
            sorted_out[self._is_kept(one)].append(one)
        kept, ended = sorted_out[True], sorted_out[False]
        for kind in (kinds.API_KEYS, kinds.SSH_CREDENTIALS):
            self.ends.remove_made(kind, _of(kind, ended), keep=_of(kind, kept))
        federated = kinds.FEDERATED_CREDENTIALS
        self.ends.disable_made(_of(federated, ended), keep=_of(federated, kept))
        self.ends.revoke(_of(kinds.SSH_USER_CERTIFICATES, made))
        self.ends.keep_hosts(_of(kinds.SSH_HOST_CERTIFICATES, made))
        new = {one.id: one.owner for one in ended if one.may_make and one.id not in self._owners}
        self._owners |= new
        return list(new)

    def _is_kept(self, made: TreeResource) -> bool:
        """Return whether a resource was made for another owner than its maker's, and such resources are kept."""
        owner = self._owners[made.maker]
        return self.ends.choice.others == "keep" and owner not in ("", made.owner)


def _of(kind: Kind, made: Iterable[TreeResource]) -> list[TreeResource]:
    return [one for one in made if kind.has(one.id)]
