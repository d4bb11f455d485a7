"""The interface of the store for gateways and control. Every method blocks, and must run in a thread."""

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
    """The store does not answer. The same call can succeed later."""


class Throttled(Unavailable):
    """The store refuses calls, because there were too many."""


class Undecodable(Unavailable):
    """The store answers, but a required record is malformed."""


class NotOpened(Exception):
    """`Store.open` has not opened a tunnel. The subclasses are the reasons."""


class NameTaken(NotOpened):
    """Another credential or account has the name.

    For a day after the release of a name (its cooldown), only the former account can take it.
    """


class NameOfEdge(NotOpened):
    """An edge of the account serves the name."""


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

    The ACL of a user certificate is in the certificate's extension bind@tunnel-edge. If there is no extension, the ACL
    is empty. An empty ACL permits everything.
    """

    account: str
    credential: str
    acl: tuple[str, ...]

    def permits(self, target: str) -> bool:
        """Return whether the ACL permits a host name, address or label (key=value). Return False for other texts."""
        try:
            return acl.permits(self.acl, target)
        except ValueError:
            return False


@dataclass(frozen=True)
class Opening:
    """A tunnel to open, with either a name or labels. `is_random` marks a random name.

    `name` is the full host name, or the address host:port of a TCP tunnel. With `proxy_protocol`, each connection to
    the upstream begins with a PROXY protocol header. `address` and `client` are the SSH client's address and version.
    `ip_policies` are the ids of IP policies that restrict the visitors.
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
        """Return the texts that the ACL must permit: the name, or each label as key=value."""
        return [self.name] if self.name else [f"{key}={value}" for key, value in self.labels]

    def is_permitted(self, grant: Grant | None) -> bool:
        """Return whether a grant permits this tunnel. `grant` is None if the credential is deleted or inactive."""
        return grant is not None and all(map(grant.permits, self.targets))

    def with_name(self, name: str, url: str, proto: Proto = "https") -> "Opening":
        return replace(self, name=name, url=url, proto=proto)

    def with_labels(self, labels: tuple[tuple[str, str], ...]) -> "Opening":
        return replace(self, labels=labels)


@dataclass(frozen=True)
class Successor:
    """An online tunnel at another gateway, which can replace a tunnel of a gateway that drains.

    `credential` is the id of the credential that has opened it.
    """

    tunnel: ServedTunnel
    credential: str
    gateway: Gateway


class Store(Protocol):
    """Reads and writes the records that the gateway and control use. Every method raises Unavailable."""

    def link_authority(self) -> Authority:
        """Return the CA for connections between edge hosts and gateways. If it does not exist, create it."""

    def find_grant_by_key(self, fingerprint: str) -> Grant | None:
        """Return the grant of the active credential with this public key, or None."""

    def find_grant_by_certificate(self, authority: str, key_id: str) -> Grant | None:
        """Return the grant of an active user certificate, or None. `authority` is the fingerprint of the signing CA."""

    def refresh_grant(self, grant: Grant) -> Grant | None:
        """Return the current grant of a credential. Return None if it is deleted or inactive."""

    def open(self, opening: Opening, *, most: int) -> ServedTunnel:
        """Store a new tunnel. It is online as long as its gateway is live.

        Raises TooManyTunnels if the account has `most` tunnels already.

        Raises NameTaken, NameBanned, NameOfEdge, NameNotReserved, NameNotProved, PolicyUnknown.
        """

    def is_reserved(self, account: str, name: str) -> bool:
        """Return whether an account has reserved or proved a name or address."""

    def wants_proxy_protocol(self, account: str, name: str) -> bool:
        """Return whether the reservation of a name requires PROXY protocol headers. Raises NameUnreadable."""

    def find_free_address(self, account: str, addresses: Sequence[str]) -> str | None:
        """Return an address that the account can use now without a reservation, chosen at random, or None."""

    def find_unpermitted(self, tunnels: Sequence[tuple[ServedTunnel, Opening]]) -> frozenset[str]:
        """Return the ids of the tunnels to which the client has lost the right.

        Either the credential does not permit the tunnel any more, or the account has lost the right to the name.
        """

    def find_missing(self, tunnels: Sequence[ServedTunnel]) -> frozenset[str]:
        """Return the ids of tunnels without a record."""

    def find_successor(self, account: str, id: str) -> Successor | None:
        """Return the account's tunnel with an id, and its gateway. Return None if the tunnel is not online."""

    def write_usage(self, account: str, hour: str, gateway: str, usage: Traffic) -> None:
        """Store an account's usage at a gateway in an hour, such as "2026-11-22T14". Replaces an earlier value."""

    def close(self, tunnel: ServedTunnel, usage: Traffic) -> None:
        """End a tunnel and free its name. The audit event contains the usage. A tunnel without a record is ignored."""

    def record_refusal(self, tunnel: ServedTunnel, reason: str) -> None:
        """Record why an edge host does not serve a tunnel, or "" if it does. This adds an entry to the change log."""

    def read_refusal(self, tunnel: ServedTunnel) -> str:
        """Return why an edge host does not serve a tunnel, or ""."""

    def list_blocked_networks(self) -> list[str]:
        """Return the networks that the operator has blocked."""

    def list_banned_patterns(self) -> list[str]:
        """Return the patterns of the operator's bans. Tunnels cannot have a name that matches one."""

    def list_banned_names(self) -> list[str]:
        """Return the host names and the name patterns that the operator has banned, but no addresses (host:port)."""

    def list_managed_apps(self) -> frozenset[str]:
        """Return the identity providers for which the operator offers a managed OAuth application."""

    def renew_sign_in_pair(self, link_authority: Authority) -> None:
        """Store a new TLS key pair for sign-in services, at most once a day."""

    def list_sign_in_keys(self) -> list[Mapping[str, str]]:
        """Return the public keys of session tokens, as entries of a key set (RFC 7517)."""

    def announce_gateway(self, gateway: Gateway, *, lease: int) -> bool:
        """Register a new gateway, which is live for `lease` seconds. Return False if its id was used before."""

    def renew_gateway(self, gateway: str, *, lease: int) -> bool:
        """Renew the lease of a live gateway. Return False if the lease has ended, or the gateway is marked as ended."""

    def change_gateway(self, gateway: Gateway) -> bool:
        """Store at which port Envoy reaches a live gateway, and whether it drains. Return False if it is not live."""

    def withdraw_gateway(self, gateway: str) -> None:
        """Mark the gateway of this process as ended. Its record stays until its last tunnel has ended."""

    def list_changes(self, since: float) -> list[Change]:
        """Return the changes in the change log that their writers dated after a Unix time."""

    def list_gateways(self) -> list[Gateway]:
        """Return all gateways, including gateways that are not live."""

    def fence_gateway(self, gateway: str) -> bool:
        """Mark a gateway as ended if its lease has lapsed. Return False if it is live or already marked."""

    def claim_sweep(self, gateway: str, *, seconds: int) -> bool:
        """Reserve for this edge host the work of ending an ended gateway's tunnels.

        It is reserved for `seconds`. Return False if another edge host has reserved it.
        """

    def remove_gateway(self, gateway: str) -> None:
        """Delete the record of an ended gateway that has no tunnels left."""

    def list_tunnels(self, gateway: str) -> list[ServedTunnel]:
        """Return the tunnels in the stored list of a gateway's tunnels. Some may be offline."""

    def list_special_names(self) -> list[SpecialEntry]:
        """Return the stored list of special names, without malformed entries.

        A special name needs a separate listener or filter chain in Envoy. An entry has the names of an edge or tunnel.
        """

    def read_special_names(self, owners: Iterable[SpecialOwner]) -> Mapping[SpecialOwner, SpecialEntry]:
        """Return the entries of the given edges and tunnels in the list of special names.

        An edge or tunnel without an entry is left out.
        """

    def list_hosts(self, account: str) -> frozenset[str]:
        """Return the hosts of an account's HTTPS and TLS edges, and the names of its online tunnels."""

    def end_tunnel(self, tunnel: ServedTunnel, gateway: Gateway) -> bool:
        """End a tunnel of an ended gateway, with one audit event. Return False if another process has ended it."""

    def find_operator_certificate(self) -> OpenedCertificate | None:
        """Return the certificate that the issuer obtained for the operator, or None."""

    def find_challenge(self, domain: str) -> PendingChallenge | None:
        """Return the pending HTTP-01 challenge of a domain, or None."""

    def announce_host(self, host: str, operator_names: Iterable[str] = (), *, lease: int) -> None:
        """Mark an edge host as live for `lease` seconds."""

    def remove_lapsed_hosts(self, *, grace: int) -> None:
        """Remove the records and reports of edge hosts `grace` seconds after the end of their lease."""

    def list_statuses(self, host: str) -> Mapping[tuple[str, str], Report]:
        """Return an edge host's stored reports about edges, by account and edge.

        A report contains the parts of an edge that Envoy has rejected, with Envoy's error messages.
        """

    def write_status(self, account: str, edge: str, report: Report) -> None:
        """Store an edge host's report about an edge. Replaces an earlier report."""

    def list_live_hosts(self) -> list[str]:
        """Return the ids of the edge hosts that are live."""

    def write_trial(self, account: str, edge: str, trial: Report) -> None:
        """Store the result of a trial, in which an edge host has connected to an edge. Replaces an earlier result."""

    def remove_trial(self, account: str, edge: str) -> None:
        """Remove the stored result of the trial of a deleted edge."""

    def remove_status(self, account: str, edge: str, host: str) -> None:
        """Remove an edge host's report about an edge."""
