"""The calls of the edge to the store, as one typed protocol. Every call blocks, and is made from a thread."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from chalicelib.model.edge_status import EdgeStatus
from chalicelib.model.gateways import Gateway
from chalicelib.model.reservations import Held
from chalicelib.model.served import ServedAuthority, ServedBackend, ServedEdge
from chalicelib.model.ssh import acl
from chalicelib.model.tls_certificates import Sealed, ServedCertificate
from chalicelib.model.tunnels import Carried, Proto, Usage
from chalicelib.storage.change_log import Change, Place
from edge.link.authority import Authority, KeyPair


class Unavailable(Exception):
    """The store cannot be reached just now."""


class NotOpened(Exception):
    """The base of the reasons for which a tunnel is not opened."""


class NameTaken(NotOpened):
    """Another credential or account has the name, or it rests."""


class NameOfEdge(NotOpened):
    """An edge of the account listens there."""


class NameNotReserved(NotOpened):
    """The account may have reserved names alone, and this is none."""


class NameNotProved(NotOpened):
    """The name is not below TUNNEL_DOMAIN, and the account has not proved that it is its own."""


class NameUnreadable(NotOpened):
    """The record of the name's reservation cannot be understood."""


class NameBanned(NotOpened):
    """The operator has banned the name."""


class TooManyTunnels(NotOpened):
    """The account has as many tunnels as it may."""


@dataclass(frozen=True)
class Grant:
    """The account that signed in, the id of its credential or user certificate, and what that may bind."""

    account: str
    credential: str
    acl: tuple[str, ...]

    def permits(self, target: str) -> bool:
        """Tell whether a host name, an address or a label (key=value) may be bound; False for any other text."""
        try:
            return acl.permits(self.acl, target)
        except ValueError:
            return False


@dataclass(frozen=True)
class Opening:
    """A tunnel to be opened; either `name`, or `labels`. `is_drawn`: the name is one of chance.

    The name is the whole host name, or the address of TCP, host:port. With `proxy_protocol`, what the tunnel leads to
    reads the visitor's address first. `address` is that of the SSH client, and `client` its version as it says it.
    """

    grant: Grant
    gateway: str
    session: str
    forwards_to: str
    name: str = ""
    url: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    is_drawn: bool = False
    address: str = ""
    client: str = ""
    proto: Proto = "https"
    proxy_protocol: bool = False

    @property
    def targets(self) -> list[str]:
        """Return the targets that the credential's ACL must permit: the name, or each label as key=value."""
        return [self.name] if self.name else [f"{key}={value}" for key, value in self.labels]

    def named(self, name: str, url: str, proto: Proto = "https") -> "Opening":
        return replace(self, name=name, url=url, proto=proto)

    def drawn(self, name: str, url: str, proto: Proto = "https") -> "Opening":
        return replace(self, name=name, url=url, proto=proto, is_drawn=True)

    def labelled(self, labels: tuple[tuple[str, str], ...]) -> "Opening":
        return replace(self, labels=labels)


class Store(Protocol):
    """The records, as the gateway and control use them. Every method raises Unavailable."""

    def link_authority(self) -> Authority:
        """Return the authority of the link, the same for every edge host and gateway; the first one makes it."""

    def find_grant_by_key(self, fingerprint: str) -> Grant | None:
        """Return the grant of the credential with this key, None when there is none that is active."""

    def find_grant_by_certificate(self, authority: str, key_id: str) -> Grant | None:
        """Return the grant of a user certificate that the authority with this fingerprint signed, None without one."""

    def refresh_grant(self, grant: Grant) -> Grant | None:
        """Return the grant of the credential as it is now, None when it is gone or may not act."""

    def open(self, opening: Opening, *, lease: int, most: int) -> Carried:
        """Bring a tunnel online for `lease` seconds.

        Raises NameTaken, NameBanned, NameOfEdge, NameNotReserved, NameNotProved, TooManyTunnels (of `most`).
        """

    def is_reserved(self, account: str, name: str) -> bool:
        """Tell whether an account has reserved or proved a name or address: its own then while no tunnel has it."""

    def wants_proxy_protocol(self, account: str, name: str) -> bool:
        """Tell whether an account's reservation of a name or address has `proxy_protocol`. Raises NameUnreadable."""

    def free_address(self, account: str, addresses: Sequence[str]) -> str | None:
        """Return one of some addresses that nobody has or has reserved, None where there is none."""

    def renew(self, tunnels: Sequence[Carried], *, lease: int) -> frozenset[str]:
        """Renew leases for `lease` seconds from now.

        Return the ids of the tunnels that are offline already, or that may not have their name any more.
        """

    def write_usage(self, account: str, hour: str, gateway: str, usage: Usage) -> None:
        """Replace the usage of an account in an hour, "2026-11-22T14", that a gateway has written."""

    def close(self, tunnel: Carried, usage: Usage) -> None:
        """Take a tunnel offline, its name with it; the event of its end tells its usage."""

    def record_refusal(self, tunnel: Carried, reason: str) -> None:
        """Note why an edge host does not serve a tunnel, "" where it does after all; the log tells of the tunnel."""

    def read_refusal(self, tunnel: Carried) -> str:
        """Return why an edge host does not serve a tunnel, "" where nothing is noted."""

    def list_blocked_networks(self) -> list[str]:
        """Return the networks that the operator has blocked."""

    def list_banned_patterns(self) -> list[str]:
        """Return the patterns of names that the operator has banned."""

    def list_banned_names(self) -> list[str]:
        """Return the names and the patterns of names that the operator has banned, without ports."""

    def announce_gateway(self, gateway: Gateway, *, lease: int) -> None:
        """Say that a gateway is up, for so many seconds."""

    def withdraw_gateway(self, gateway: str) -> None:
        """Say that a gateway is down."""

    def list_changes(self, since: float) -> list[Change]:
        """Return the changes in the log that were stamped after a Unix second, by the writers' clocks."""

    def read_current(self, place: Place) -> Gateway | Carried | ServedCertificate | Held | None:
        """Return the value at a place as it is now, None where there is none that is live."""

    def list_gateways(self) -> list[tuple[Gateway, bool]]:
        """Return all gateways, and whether each is up."""

    def list_tunnels(self, gateway: str) -> list[Carried]:
        """Return the tunnels that a gateway carries, also those whose lease has ended."""

    def list_certificates(self, account: str) -> list[Sealed]:
        """Return the certificates that an account has uploaded, without those that cannot be understood."""

    def list_reservations(self, account: str, hosts: Iterable[str]) -> list[Held]:
        """Return the reservations for hosts: the account's below TUNNEL_DOMAIN, elsewhere the holder's by proof.

        For a wildcard elsewhere also all that are proved directly below it.
        """

    def unseal_key_pair(self, sealed: Sealed) -> KeyPair:
        """Return an uploaded certificate with its key, opened."""

    def list_listening_edges(self) -> Mapping[tuple[str, str], int]:
        """Return the revision of every edge that listens somewhere, by account and id."""

    def read_edge(self, account: str, id: str) -> ServedEdge | None:
        """Return an edge with its routes, which are of its revision or later; None where it listens nowhere.

        One that cannot be understood has an `error`, and no hostports where its record does not even say these.
        """

    def is_account_active(self, account: str) -> bool:
        """Tell whether an account is not switched off."""

    def read_parts(self, account: str, ids: Iterable[str]) -> list[ServedBackend | ServedAuthority]:
        """Return the backends and authorities of an account with some ids, without those that are not there.

        Of one that cannot be understood nothing but the id is known.
        """

    def end_lapsed_tunnels(self, account: str) -> None:
        """Take the tunnels of an account offline whose lease has ended, each with one event."""

    def announce_host(self, host: str, *, lease: int) -> None:
        """Say that an edge host lives, for so many seconds."""

    def remove_lapsed_hosts(self, *, grace: int) -> None:
        """Remove hosts whose lease ended so many seconds ago, with all their statuses."""

    def list_statuses(self, host: str) -> Mapping[tuple[str, str], EdgeStatus]:
        """Return the statuses that a host has written, by account and edge."""

    def write_status(self, account: str, edge: str, host: str, status: EdgeStatus) -> None:
        """Write the status of an edge on a host, in the place of the one before."""

    def remove_status(self, account: str, edge: str, host: str) -> None:
        """Remove the status of an edge on a host."""
