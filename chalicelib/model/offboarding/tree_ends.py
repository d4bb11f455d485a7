"""Ends the resources of a tree: deletes them, revokes them, or keeps them.

Each call has a budget of time. After it, `OutOfTime` is raised between two transactions, and the next call continues.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from chalicelib.model import changes
from chalicelib.model.accounts import api_keys
from chalicelib.model.base import kinds, records
from chalicelib.model.base.kinds import Kind
from chalicelib.model.changes import Change
from chalicelib.model.offboarding import roots
from chalicelib.model.offboarding.makers import TreeResource
from chalicelib.model.ssh import grouped_revocations, revocations
from chalicelib.model.ssh.authorities import IssuedCertificate
from chalicelib.model.ssh.revocations import Issuer, Revocation
from chalicelib.storage.records import direct_writes, items, revocation_lists, table
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.revocation_lists import Chunk
from chalicelib.storage.records.writes import Overtaken

BUDGET = 7.0  # seconds in which a call may start transactions; it then ends within _CALL seconds
_CALL = 8  # the most seconds that one call of an offboarding takes
MAX_KEPT = 100  # the most kept resources that a response lists; the response only counts all others

_CERTIFICATE = "ssh_user_certificate_id"


class OutOfTime(Exception):
    """The call has used its budget of time, so another call must continue."""


@dataclass(frozen=True)
class Choice:
    """The options of an offboarding.

    `others`: whether to end resources that keys of the tree created for other users and bots. `certificates`: whether
    to revoke user certificates.
    """

    others: Literal["end", "keep"]
    certificates: Literal["revoke", "keep"]


@dataclass
class Ends:
    """Ends resources in one call.

    `counts` has the numbers of ended resources by kind. `kept` has the ids of resources that stay, with their owners.
    """

    change: Change
    root: Item
    choice: Choice
    until: float  # the value of time.monotonic() after which `check_time` raises OutOfTime
    counts: dict[Kind, int] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    has_locked: bool = False
    _locked: set[str] = field(default_factory=set)
    _issuers: dict[str, Issuer | None] = field(default_factory=dict)
    _lists: dict[str, list[Chunk]] = field(default_factory=dict)

    def check_time(self) -> None:
        """Raise OutOfTime if the call has used its time."""
        if time.monotonic() > self.until:
            raise OutOfTime

    def lock(self, keys: Collection[TreeResource]) -> None:
        """Reject the tokens of API keys from now on, a hundred per transaction. Raises aws.Unavailable."""
        found = self._find(kinds.API_KEYS, [key for key in keys if key.id not in self._locked])
        self._locked |= {key.id for key in keys}
        if found:
            self.postpone()
            direct_writes.set_all([(key, key.attributes) for key in map(api_keys.locked, found)])

    def postpone(self) -> None:
        """Postpone the time from which a walk can complete the offboarding.

        Requests with API keys can still be running after the keys are locked. Call this method before keys are locked,
        in case the call is interrupted afterwards. Raises aws.Unavailable.
        """
        if not self.has_locked:
            self.has_locked, self.root = True, roots.postpone(self.root, _CALL + roots.SETTLING)

    def remove(self, found: Iterable[Item]) -> None:
        """Delete API keys and SSH credentials, each in a transaction. Raises OutOfTime, aws.Unavailable."""
        for item in found:
            self.check_time()
            if self._delete(item):
                self._count(kinds.of(item.id), 1)

    def remove_made(self, kind: Kind, made: Collection[TreeResource], *, keep: Collection[TreeResource]) -> None:
        """Delete the resources in `made`, which are of one kind.

        The resources in `keep` stay, and are added to `kept`. Raises OutOfTime, aws.Unavailable.
        """
        found = self._find(kind, [*made, *keep])
        self._keep(one for one in keep if one.id in found)
        self.remove(found[one.id] for one in made if one.id in found)

    def disable_made(self, made: Collection[TreeResource], *, keep: Collection[TreeResource]) -> None:
        """Disable the federated credentials in `made`.

        The credentials in `keep` stay, and are added to `kept`. Raises OutOfTime, aws.Unavailable.
        """
        found = self._find(kinds.FEDERATED_CREDENTIALS, [*made, *keep])
        self._keep(one for one in keep if one.id in found)
        self.disable(found[one.id] for one in made if one.id in found)

    def disable(self, found: Iterable[Item]) -> None:
        """Disable federated credentials that are enabled. Raises OutOfTime, aws.Unavailable."""
        for item in found:
            if item.malformed or not item.body.get("enabled", True):
                continue
            self.check_time()
            if changes.rewrite(self.change, item.scope, item.id, roots.disable):
                self._count(kinds.FEDERATED_CREDENTIALS, 1)

    def revoke(self, certificates: Collection[TreeResource]) -> None:
        """Revoke user certificates, or keep them if `choice` requires it.

        Raises OutOfTime, ListFull, aws.Unavailable.
        """
        for authority, group in _by_authority(certificates):
            left = [one for one in group if not grouped_revocations.is_revoked(self._list(authority), _revocation(one))]
            if self.choice.certificates == "keep":
                self._keep_existing(kinds.SSH_USER_CERTIFICATES, left)
                continue
            for start in range(0, len(left), grouped_revocations.AT_ONCE):
                self.check_time()
                self._revoke(authority, left[start : start + grouped_revocations.AT_ONCE])

    def keep_hosts(self, certificates: Collection[TreeResource]) -> None:
        """Add the valid host certificates to `kept`. They stay, because servers use them. Raises aws.Unavailable."""
        self._keep_existing(kinds.SSH_HOST_CERTIFICATES, [one for one in certificates if not one.has_ended()])

    def _revoke(self, authority: str, group: Sequence[TreeResource]) -> None:
        if authority not in self._issuers:
            self._issuers[authority] = self._find_issuer(authority, group)
        if issuer := self._issuers[authority]:
            revoked = grouped_revocations.revoke(self.change, issuer, [_revocation(one) for one in group])
            self._count(kinds.SSH_USER_CERTIFICATES, revoked)

    def _find_issuer(self, authority: str, group: Sequence[TreeResource]) -> Issuer | None:
        """Return the SSH authority that issued the certificates in `group`.

        Return None if it cannot be found. The authority is found by its revocation list. If the authority was deleted,
        this list can have expired. In that case, the authority's key is read from a stored certificate.
        """
        account = self.root.account
        if found := revocations.find_issuer(account, authority):
            return found
        certificates = self._find(kinds.SSH_USER_CERTIFICATES, group).values()
        decoded = records.decoded(IssuedCertificate, certificates)
        return next((Issuer(account, authority, stored.signed().authority) for _, stored in decoded), None)

    def _list(self, authority: str) -> list[Chunk]:
        """Return the records with the entries of a revocation list ("chunks"), read once per call."""
        if authority not in self._lists:
            self._lists[authority] = revocation_lists.chunks(authority)
        return self._lists[authority]

    def _delete(self, item: Item) -> bool:
        try:
            self.change.remove(item).commit()
        except Overtaken:
            return changes.delete(self.change, item.scope, item.id)
        return True

    def _find(self, kind: Kind, made: Iterable[TreeResource]) -> dict[str, Item]:
        return table.find_each(items.scope(self.root.account, kind.path), [one.id for one in made])

    def _keep_existing(self, kind: Kind, made: Collection[TreeResource]) -> None:
        found = self._find(kind, made)
        self._keep(one for one in made if one.id in found)

    def _keep(self, made: Iterable[TreeResource]) -> None:
        self.kept |= {one.id: one.owner for one in made}

    def _count(self, kind: Kind, number: int) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + number


def _by_authority(certificates: Iterable[TreeResource]) -> Iterator[tuple[str, list[TreeResource]]]:
    """Yield the ids of SSH authorities, with the certificates that they issued. Ended certificates are left out."""
    found: dict[str, list[TreeResource]] = {}
    for one in certificates:
        if not one.has_ended():
            found.setdefault(str(one.details.get("ssh_certificate_authority_id", "")), []).append(one)
    yield from found.items()


def _revocation(made: TreeResource) -> Revocation:
    """Return the revocation of a user certificate. `made` is from the audit event of its creation."""
    named = {name: str(made.details.get(name, "")) for name in ("serial", "valid_until")}
    return replace(Revocation(**named), **{_CERTIFICATE: made.id})
