"""The protocol of the edge's store. Every call blocks, and must run in a thread."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from chalicelib.model.edges.edge_status import Report
from chalicelib.model.names.operator_certificate import OpenedCertificate
from chalicelib.model.names.special_names import SpecialEntry, SpecialOwner
from chalicelib.model.ssh import acl
from chalicelib.model.tls.challenge_records import PendingChallenge
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import Proto, ServedTunnel, Traffic
from chalicelib.storage.records.change_log import Change
from edge.link.authority import Authority


class Unavailable(Exception):
    """The store does not answer."""


class Undecodable(Unavailable):
    """The store answers, but a required record is malformed."""


class NotOpened(Exception):
    """The base of the errors of Store.open."""


class NameTaken(NotOpened):
    """Another credential or account has the name, or the name is in its cooldown."""


class NameOfEdge(NotOpened):
    """An edge of the account listens on the name."""


class NameNotReserved(NotOpened):
    """The account can use only reserved names, and the name is not reserved."""


class NameNotProved(NotOpened):
    """The name is not below TUNNEL_DOMAIN, and the account has not proved that it owns the name."""


class NameUnreadable(NotOpened):
    """The reservation of the name is malformed."""


class PolicyUnknown(NotOpened):
    """The account does not have an IP policy that the client named."""


class NameBanned(NotOpened):
    """The operator has banned the name."""


class TooManyTunnels(NotOpened):
    """The account or gateway has reached its limit of tunnels."""


@dataclass(frozen=True)
class Grant:
    """The rights of a signed-in client: its account, and the id and ACL of its credential.

    The ACL of a user certificate is in its extension bind@tunnel-edge. Without the extension, it is empty and permits
    everything.
    """

    account: str
    credential: str
    acl: tuple[str, ...]

    def permits(self, target: str) -> bool:
        """Return whether a host name, address or label (key=value) is permitted. False for other texts."""
        try:
            return acl.permits(self.acl, target)
        except ValueError:
            return False


@dataclass(frozen=True)
class Opening:
    """A tunnel to open, with either a name or labels. `is_random` marks a random name.

    `name` is the full host name, or the address host:port of a TCP tunnel. With `proxy_protocol` the upstream reads a
    PROXY header first. `address` and `client` are the SSH client's address and version. `ip_policies` are the ids of
    IP policies that restrict the visitors.
    """

    grant: Grant
    gateway: str
    session: str
    forwards_to: str
    name: str = ""
    url: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    is_random: bool = False
    address: str = ""
    client: str = ""
    proto: Proto = "https"
    proxy_protocol: bool = False
    ip_policies: tuple[str, ...] = ()

    @property
    def targets(self) -> list[str]:
        """Return what the credential's ACL must permit: the name, or each label as key=value."""
        return [self.name] if self.name else [f"{key}={value}" for key, value in self.labels]

    def is_permitted(self, grant: Grant | None) -> bool:
        """Return whether the current grant of its credential permits the tunnel."""
        return grant is not None and all(map(grant.permits, self.targets))

    def with_name(self, name: str, url: str, proto: Proto = "https") -> "Opening":
        return replace(self, name=name, url=url, proto=proto)

    def with_labels(self, labels: tuple[tuple[str, str], ...]) -> "Opening":
        return replace(self, labels=labels)


@dataclass(frozen=True)
class Successor:
    """An online tunnel at another gateway, with the credential that opened it."""

    tunnel: ServedTunnel
    credential: str
    gateway: Gateway


class Store(Protocol):
    """The records that the gateway and control use. Every method raises Unavailable."""

    def link_authority(self) -> Authority:
        """Return the authority of the link, which all edge hosts and gateways share. The first call creates it."""

    def find_grant_by_key(self, fingerprint: str) -> Grant | None:
        """Return the grant of the active credential with a key, or None."""

    def find_grant_by_certificate(self, authority: str, key_id: str) -> Grant | None:
        """Return the grant of an active user certificate, or None. `authority` is its signer's fingerprint."""

    def refresh_grant(self, grant: Grant) -> Grant | None:
        """Return the current grant of a credential, or None if it is deleted or inactive."""

    def open(self, opening: Opening, *, most: int) -> ServedTunnel:
        """Open a tunnel, which is online while its gateway is live. The account can have at most `most` tunnels.

        Raises NameTaken, NameBanned, NameOfEdge, NameNotReserved, NameNotProved, PolicyUnknown, TooManyTunnels.
        """

    def is_reserved(self, account: str, name: str) -> bool:
        """Return whether an account has reserved or proved a name or address."""

    def wants_proxy_protocol(self, account: str, name: str) -> bool:
        """Return whether a reservation has `proxy_protocol`. Raises NameUnreadable."""

    def find_free_address(self, account: str, addresses: Sequence[str]) -> str | None:
        """Return one of the addresses that is free and not reserved, or None."""

    def find_unpermitted(self, tunnels: Sequence[tuple[ServedTunnel, Opening]]) -> frozenset[str]:
        """Return the ids of tunnels that have lost the right to their name, or their credential."""

    def find_missing(self, tunnels: Sequence[ServedTunnel]) -> frozenset[str]:
        """Return the ids of tunnels without a record."""

    def find_successor(self, account: str, id: str) -> Successor | None:
        """Return an account's tunnel by its id, with its gateway. Return None unless it is online at a gateway."""

    def write_usage(self, account: str, hour: str, gateway: str, usage: Traffic) -> None:
        """Write the usage of an account in an hour ("2026-11-22T14") at a gateway. Replaces the previous write."""

    def close(self, tunnel: ServedTunnel, usage: Traffic) -> None:
        """End a tunnel and free its name. The audit event contains the usage. Does nothing if it has no record."""

    def record_refusal(self, tunnel: ServedTunnel, reason: str) -> None:
        """Record why an edge host does not serve a tunnel, or "" if it does. Adds the tunnel to the change log."""

    def read_refusal(self, tunnel: ServedTunnel) -> str:
        """Return why an edge host does not serve a tunnel, or ""."""

    def list_blocked_networks(self) -> list[str]:
        """Return the networks that the operator has blocked."""

    def list_banned_patterns(self) -> list[str]:
        """Return the name patterns that the operator has banned."""

    def list_banned_names(self) -> list[str]:
        """Return the names and name patterns that the operator has banned, without ports."""

    def list_managed_apps(self) -> frozenset[str]:
        """Return the identity providers at which the operator has an application."""

    def renew_sign_in_pair(self, link_authority: Authority) -> None:
        """Store a new key pair for sign-in services on other hosts, unless the stored one is less than a day old."""

    def list_sign_in_keys(self) -> list[Mapping[str, str]]:
        """Return the public keys of session tokens, as entries of a key set (RFC 7517)."""

    def announce_gateway(self, gateway: Gateway, *, lease: int) -> bool:
        """Register a new gateway, live for `lease` seconds. Return False if its id was used."""

    def renew_gateway(self, gateway: str, *, lease: int) -> bool:
        """Renew the lease of a live gateway. Return False if its lease is over or it is ended."""

    def change_gateway(self, gateway: Gateway) -> bool:
        """Store the link port of a live gateway, and whether it drains. Return False if it is not live."""

    def withdraw_gateway(self, gateway: str) -> None:
        """End the gateway of this process. Its record stays until its last tunnel has ended."""

    def list_changes(self, since: float) -> list[Change]:
        """Return the logged changes after a Unix time, by the clocks of their writers."""

    def list_gateways(self) -> list[Gateway]:
        """Return all gateways, also those that are not live."""

    def fence_gateway(self, gateway: str) -> bool:
        """End a gateway whose lease has been over for long enough. Return False if it is live or ended already."""

    def claim_sweep(self, gateway: str, *, seconds: int) -> bool:
        """Claim the task of ending the tunnels of an ended gateway. Return False if another host has claimed it."""

    def remove_gateway(self, gateway: str) -> None:
        """Delete the record of an ended gateway without tunnels."""

    def list_tunnels(self, gateway: str) -> list[ServedTunnel]:
        """Return the tunnels in the list of a gateway. Some may be offline."""

    def list_special_names(self) -> list[SpecialEntry]:
        """Return all entries of the list of special names, without malformed ones."""

    def read_special_names(self, owners: Iterable[SpecialOwner]) -> Mapping[SpecialOwner, SpecialEntry]:
        """Return the entries of edges and tunnels in the list of special names. Missing entries are left out."""

    def list_hosts(self, account: str) -> frozenset[str]:
        """Return the hosts of an account's HTTPS and TLS edges, and the names of its online tunnels."""

    def end_tunnel(self, tunnel: ServedTunnel, gateway: Gateway) -> bool:
        """End a tunnel of an ended gateway, with one audit event. Return False if another process has ended it."""

    def find_operator_certificate(self) -> OpenedCertificate | None:
        """Return the certificate that the issuer obtained for the operator, or None."""

    def find_challenge(self, domain: str) -> PendingChallenge | None:
        """Return the pending challenge of a domain over HTTP-01, or None."""

    def announce_host(self, host: str, operator_names: Iterable[str] = (), *, lease: int) -> None:
        """Mark an edge host as up for `lease` seconds."""

    def remove_lapsed_hosts(self, *, grace: int) -> None:
        """Remove hosts and their statuses `grace` seconds after the end of their lease."""

    def list_statuses(self, host: str) -> Mapping[tuple[str, str], Report]:
        """Return the statuses that a host has written, by account and edge."""

    def write_status(self, account: str, edge: str, report: Report) -> None:
        """Replace a host's report about an edge."""

    def list_live_hosts(self) -> list[str]:
        """Return the ids of the hosts that are up."""

    def write_trial(self, account: str, edge: str, trial: Report) -> None:
        """Replace the result of the trial of an edge."""

    def remove_trial(self, account: str, edge: str) -> None:
        """Remove the result of the trial of a deleted edge."""

    def remove_status(self, account: str, edge: str, host: str) -> None:
        """Remove the status of an edge on a host."""
