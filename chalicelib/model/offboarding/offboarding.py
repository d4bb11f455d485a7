"""Offboarding of a root (a user, bot, API key or federated credential), with all resources that the root created.

Offboarding first closes the root, so that the root's credentials are rejected. A walk then searches the whole tree of
resources and ends them. A walk can take several calls. Offboarding is complete after a walk that found nothing to end,
unless requests with keys of the tree were still running when the walk began: these could create further resources.
"""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from chalicelib import clock
from chalicelib.model import changes
from chalicelib.model.accounts import federated_credentials, ownership, switching
from chalicelib.model.audit import reading
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.changes import Change
from chalicelib.model.offboarding import progress, roots, tree_ends
from chalicelib.model.offboarding.makers import MakerEvents, TreeResource
from chalicelib.model.offboarding.tree_ends import MAX_KEPT, Choice, Ends, OutOfTime
from chalicelib.storage.records import items, table

_EXPLORING = 4.0  # seconds after which a search pauses, so that the resources found until then are ended first
_AT_ONCE = 100  # the number of found resources after which a search pauses to lock the API keys among them


@dataclass(frozen=True)
class OffboardingResult:
    """The result of one call of `offboard`. `ended` counts the resources that this call has ended, by kind."""

    complete: bool
    retry_after: int
    ended: dict[Kind, int]
    kept: dict[str, str]
    kept_more: int


def offboard(change: Change, account: str, id: str, choice: Choice) -> OffboardingResult | None:
    """Offboard a user, bot, API key or federated credential. A call takes at most 8 seconds.

    Return None if the account has no such resource with this id. The actor of `change` becomes the actor of all audit
    events. Raises LastAdmin, ListFull, MalformedRecord, aws.Unavailable.
    """
    root = roots.close(change, account, id)
    if root is None:
        return None
    walk = Walk(Ends(change, root, choice, time.monotonic() + tree_ends.BUDGET))
    is_whole = walk.run()
    is_complete = is_whole and not walk.has_ended and walk.began >= roots.find_settled_time(walk.ends.root)
    if is_complete and kinds.API_KEYS.has(id):
        changes.delete(change, root.scope, id)
        walk.ends.counts[kinds.API_KEYS] = 1
    wait = 0 if is_complete or not is_whole else max(0, roots.find_settled_time(walk.ends.root) - clock.seconds())
    kept, more = walk.list_kept()
    return OffboardingResult(is_complete, wait, walk.ends.counts, kept, more)


class Walk:
    """One walk: a search of a whole tree for resources to end, which can take several calls.

    API keys are locked as soon as they are found, so that they cannot create other keys faster than the walk ends them.
    """

    def __init__(self, ends: Ends) -> None:
        """Begin a walk, or continue the walk that an earlier call with the same options stored."""
        self.ends, self._root = ends, ends.root
        choice = f"{ends.choice.others} {ends.choice.certificates}"
        is_owner = roots.is_owner(self._root.id)
        first = {} if is_owner else {self._root.id: roots.owner_of(self._root)}
        self._progress = progress.read(self._root, choice) or progress.begin(choice, first, "" if is_owner else None)
        self._waiting, self._before = dict(self._progress.waiting), self._progress.before
        self._owners = dict(self._waiting)  # the keys and credentials that this call has found, with their owners

    @property
    def began(self) -> int:
        """Return the Unix second at which the walk began."""
        return self._progress.began

    @property
    def has_ended(self) -> bool:
        """Return whether the walk has ended a resource, in this call or an earlier call."""
        return self._progress.has_ended or any(self.ends.counts.values())

    def list_kept(self) -> tuple[dict[str, str], int]:
        """Return at most MAX_KEPT ids of kept resources, with their owners. Also return the number of all others."""
        sorted_owners = sorted((self._progress.kept | self.ends.kept).items())
        return dict(sorted_owners[:MAX_KEPT]), self._progress.kept_more + len(sorted_owners[MAX_KEPT:])

    def run(self) -> bool:
        """End the resources of the tree. Return False if there was not enough time. Raises aws.Unavailable."""
        try:
            self._end_tree(MakerEvents(self._root.account))
        except OutOfTime:
            is_whole = False
        else:
            is_whole = True
        self._save(is_whole)
        return is_whole

    def _end_tree(self, events: MakerEvents) -> None:
        federated = self._end_credentials() if roots.is_owner(self._root.id) else []
        while self._waiting or self._before is not None:
            self.ends.check_time()
            events.refresh()
            waiting, before = dict(self._waiting), self._before
            try:
                self._end(self._explore(events))
            except OutOfTime:
                self._waiting, self._before = waiting | self._waiting, before
                raise
        self._end_exchanged(events, federated)

    def _save(self, is_whole: bool) -> None:
        """Store the progress of the walk. If the walk `is_whole` (it has searched the whole tree), remove the progress.

        If this call has locked API keys, requests with these keys can still be running and create resources. So the
        time from which a walk can complete the offboarding is postponed.
        """
        if self.ends.has_locked:
            self.ends.root = roots.postpone(self.ends.root, roots.SETTLING)
        if is_whole:
            progress.write(self._root, None)
            return
        kept, more = self.list_kept()
        state = replace(self._progress, waiting=self._waiting, before=self._before, has_ended=self.has_ended)
        progress.write(self._root, replace(state, kept=kept, kept_more=more))

    def _end_credentials(self) -> list[str]:
        """End a user's or bot's SSH credentials and federated credentials.

        Returns the ids of federated credentials that may have issued certificates to this user or bot.
        """
        if switching.is_shown_active(self._root):
            self.ends.postpone()
            roots.shut_out(self._root)
        self.ends.remove(ownership.list_credentials(self._root.account, self._root.id))
        federated = roots.list_federated(self._root.account, self._root.id)
        self.ends.disable(item for item in federated if item.body.get("owner_id") == self._root.id)
        return [item.id for item in federated]

    def _end_exchanged(self, events: MakerEvents, federated: Iterable[str]) -> None:
        """Revoke the certificates that federated credentials issued to a user or bot.

        These certificates are valid for half a day at most.
        """
        since = clock.seconds() - federated_credentials.MAX_LIFETIME
        for id in federated:
            self.ends.check_time()
            certificates = _select_kind(kinds.SSH_USER_CERTIFICATES, events.find_made_by(id, since=since))
            self.ends.revoke([certificate for certificate in certificates if certificate.owner == self._root.id])

    def _explore(self, events: MakerEvents) -> list[TreeResource]:
        """Find resources that keys and credentials in `_waiting` created. Lock the API keys among these resources.

        The search stops after _EXPLORING seconds, so that each call also ends some resources.
        """
        resources: list[TreeResource] = []
        until = time.monotonic() + _EXPLORING
        while (self._waiting or self._before is not None) and time.monotonic() < until:
            if not self._waiting:
                self._read_own_keys()
            self._lock(events, events.find_made_lately_by(self._waiting))
            group: list[TreeResource] = []
            while self._waiting and len(group) < _AT_ONCE and time.monotonic() < until:
                maker = next(iter(self._waiting))
                del self._waiting[maker]
                group += events.find_made_by(maker)
            self._lock(events, group)
            resources += group
        return resources

    def _read_own_keys(self) -> None:
        """Read the ids of some more API keys of a user or bot, and delete these keys.

        The ids include keys that were deleted earlier. Add all ids to `_waiting`, because resources that a deleted key
        created can still exist.
        """
        ids, has_more = reading.read_page_of_keys(self._root.account, self._root.id, before=self._before or None)
        self._before = ids[-1] if has_more else None
        new = dict.fromkeys((id for id in ids if id not in self._owners), self._root.id)
        self._owners |= new
        self._waiting |= new
        self.ends.remove(table.find_each(items.scope(self._root.account, kinds.API_KEYS.path), ids).values())

    def _lock(self, events: MakerEvents, resources: Collection[TreeResource]) -> None:
        """Lock the API keys among `resources`.

        Also lock the API keys that they created in the last minute.

        Keys and credentials are added to `_waiting`, so that the search also finds their older resources.
        """
        while resources:
            ended = [resource for resource in resources if not self._is_kept(resource)]
            self.ends.lock(_select_kind(kinds.API_KEYS, ended))
            new = {
                resource.id: resource.owner
                for resource in ended
                if resource.may_make and resource.id not in self._owners
            }
            self._owners |= new
            self._waiting |= new
            resources = events.find_made_lately_by(new)

    def _end(self, resources: Collection[TreeResource]) -> None:
        sorted_out: dict[bool, list[TreeResource]] = {True: [], False: []}
        for resource in resources:
            sorted_out[self._is_kept(resource)].append(resource)
        kept_resources, ended_resources = sorted_out[True], sorted_out[False]
        federated = kinds.FEDERATED_CREDENTIALS
        self.ends.disable_made(_select_kind(federated, ended_resources), keep=_select_kind(federated, kept_resources))
        self.ends.revoke(_select_kind(kinds.SSH_USER_CERTIFICATES, resources))
        for kind in (kinds.SSH_CREDENTIALS, kinds.API_KEYS):
            self.ends.remove_made(kind, _select_kind(kind, ended_resources), keep=_select_kind(kind, kept_resources))
        self.ends.keep_hosts(_select_kind(kinds.SSH_HOST_CERTIFICATES, resources))

    def _is_kept(self, resource: TreeResource) -> bool:
        """Return whether to keep a resource.

        With the option "keep", resources stay if their owner is not the owner of the key that created them.
        """
        owner = self._owners[resource.maker]
        return self.ends.choice.others == "keep" and owner not in ("", resource.owner)


def _select_kind(kind: Kind, resources: Iterable[TreeResource]) -> list[TreeResource]:
    return [resource for resource in resources if kind.has(resource.id)]
