"""Ends the resources of a tree: deletes them, revokes them, or keeps them.

Each call has BUDGET seconds. Once they have passed, OutOfTime is raised before the next transaction, and another call
must continue.
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

BUDGET = 7.0  # seconds after which a call starts no more transactions, so that the call ends within _CALL seconds
_CALL = 8  # the most seconds that one call of an offboarding takes
MAX_KEPT = 100  # the most kept resources that a response lists; further ones are only counted

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
    """Ends resources in one call of an offboarding.

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
        """Lock API keys, so that the API rejects their tokens. Raises aws.Unavailable."""
        items_by_id = self._find(kinds.API_KEYS, [key for key in keys if key.id not in self._locked])
        self._locked |= {key.id for key in keys}
        if items_by_id:
            self.postpone()
            direct_writes.set_all([(key, key.attributes) for key in map(api_keys.build_locked_key, items_by_id)])

    def postpone(self) -> None:
        """Postpone the time from which a walk can complete the offboarding.

        Requests with API keys can still be running after the keys are locked. Call this method before keys are locked,
        in case the call is interrupted afterwards. Raises aws.Unavailable.
        """
        if not self.has_locked:
            self.has_locked, self.root = True, roots.postpone(self.root, _CALL + roots.SETTLING)

    def remove(self, credentials: Iterable[Item]) -> None:
        """Delete API keys and SSH credentials, each in a transaction. Raises OutOfTime, aws.Unavailable."""
        for item in credentials:
            self.check_time()
            if self._delete(item):
                self._count(kinds.identify(item.id), 1)

    def remove_made(self, kind: Kind, resources: Collection[TreeResource], *, keep: Collection[TreeResource]) -> None:
        """Delete the resources in `resources`, which are of one kind.

        The resources in `keep` stay, and are added to `kept`. Raises OutOfTime, aws.Unavailable.
        """
        items_by_id = self._find(kind, [*resources, *keep])
        self._keep(resource for resource in keep if resource.id in items_by_id)
        self.remove(items_by_id[resource.id] for resource in resources if resource.id in items_by_id)

    def disable_made(self, resources: Collection[TreeResource], *, keep: Collection[TreeResource]) -> None:
        """Disable the federated credentials in `resources`.

        The credentials in `keep` stay, and are added to `kept`. Raises OutOfTime, aws.Unavailable.
        """
        items_by_id = self._find(kinds.FEDERATED_CREDENTIALS, [*resources, *keep])
        self._keep(resource for resource in keep if resource.id in items_by_id)
        self.disable(items_by_id[resource.id] for resource in resources if resource.id in items_by_id)

    def disable(self, credentials: Iterable[Item]) -> None:
        """Disable federated credentials that are enabled. Raises OutOfTime, aws.Unavailable."""
        for item in credentials:
            if item.malformed or not item.body.get("enabled", True):
                continue
            self.check_time()
            if changes.rewrite(self.change, item.scope, item.id, roots.disable):
                self._count(kinds.FEDERATED_CREDENTIALS, 1)

    def revoke(self, certificates: Collection[TreeResource]) -> None:
        """Revoke user certificates, or keep them if `choice` requires it.

        Raises OutOfTime, ListFull, aws.Unavailable.
        """
        for authority, group in _group_by_authority(certificates):
            valid_certificates = [
                certificate
                for certificate in group
                if not grouped_revocations.is_revoked(self._list(authority), _revocation(certificate))
            ]
            if self.choice.certificates == "keep":
                self._keep_existing(kinds.SSH_USER_CERTIFICATES, valid_certificates)
                continue
            for start in range(0, len(valid_certificates), grouped_revocations.AT_ONCE):
                self.check_time()
                self._revoke(authority, valid_certificates[start : start + grouped_revocations.AT_ONCE])

    def keep_hosts(self, certificates: Collection[TreeResource]) -> None:
        """Add the valid host certificates to `kept`. They stay, because servers use them. Raises aws.Unavailable."""
        valid = [certificate for certificate in certificates if not certificate.has_ended()]
        self._keep_existing(kinds.SSH_HOST_CERTIFICATES, valid)

    def _revoke(self, authority: str, group: Sequence[TreeResource]) -> None:
        if authority not in self._issuers:
            self._issuers[authority] = self._find_issuer(authority, group)
        if issuer := self._issuers[authority]:
            entries = [_revocation(certificate) for certificate in group]
            self._count(kinds.SSH_USER_CERTIFICATES, grouped_revocations.revoke(self.change, issuer, entries))

    def _find_issuer(self, authority: str, group: Sequence[TreeResource]) -> Issuer | None:
        """Return the SSH authority that issued the certificates in `group`.

        Return None if it cannot be found. The authority is found by its revocation list. If the authority was deleted,
        this list can have expired. In that case, the authority's key is read from a stored certificate.
        """
        account = self.root.account
        if issuer := revocations.find_issuer(account, authority):
            return issuer
        certificates = self._find(kinds.SSH_USER_CERTIFICATES, group).values()
        decoded = records.decode_each(IssuedCertificate, certificates)
        return next((Issuer(account, authority, stored.decode_signed().authority) for _, stored in decoded), None)

    def _list(self, authority: str) -> list[Chunk]:
        """Return the records ("chunks") with the entries of an authority's revocation list.

        Each list is read only once per call.
        """
        if authority not in self._lists:
            self._lists[authority] = revocation_lists.read_chunks(authority)
        return self._lists[authority]

    def _delete(self, item: Item) -> bool:
        try:
            self.change.remove(item).commit()
        except Overtaken:
            return changes.delete(self.change, item.scope, item.id)
        return True

    def _find(self, kind: Kind, resources: Iterable[TreeResource]) -> dict[str, Item]:
        return table.find_each(items.scope(self.root.account, kind.path), [resource.id for resource in resources])

    def _keep_existing(self, kind: Kind, resources: Collection[TreeResource]) -> None:
        items_by_id = self._find(kind, resources)
        self._keep(resource for resource in resources if resource.id in items_by_id)

    def _keep(self, resources: Iterable[TreeResource]) -> None:
        self.kept |= {resource.id: resource.owner for resource in resources}

    def _count(self, kind: Kind, number: int) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + number


def _group_by_authority(certificates: Iterable[TreeResource]) -> Iterator[tuple[str, list[TreeResource]]]:
    """Yield the ids of SSH authorities, with the certificates that they issued. Ended certificates are left out."""
    groups: dict[str, list[TreeResource]] = {}
    for certificate in certificates:
        if not certificate.has_ended():
            groups.setdefault(str(certificate.details.get("ssh_certificate_authority_id", "")), []).append(certificate)
    yield from groups.items()


def _revocation(certificate: TreeResource) -> Revocation:
    """Return the revocation of a user certificate. `certificate` is from the audit event of its creation."""
    named = {name: str(certificate.details.get(name, "")) for name in ("serial", "valid_until")}
    return replace(Revocation(**named), **{_CERTIFICATE: certificate.id})
