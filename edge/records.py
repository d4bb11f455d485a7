"""The calls of the edge to the store, as one typed protocol. Every call blocks, and is made from a thread."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from chalicelib.model.ssh import acl
from edge.authority import Authority, KeyPair


class Unavailable(Exception):
    """The store cannot be reached just now."""


class NameTaken(Exception):
    """Another credential has the name."""


class NameBanned(Exception):
    """The operator has banned the name."""


class TooManyTunnels(Exception):
    """The account has as many tunnels as it may."""


@dataclass(frozen=True)
class Grant:
    """Who signed in: an account, by a credential or user certificate of that id, and what that may bind."""

    account: str
    credential: str
    acl: tuple[str, ...]

    def permits(self, target: str) -> bool:
        """Tell whether a host name or a label (key=value) may be bound; False for any other text."""
        try:
            return acl.permits(self.acl, target)
        except ValueError:
            return False


@dataclass(frozen=True)
class Opening:
    """A tunnel to be opened; either `name`, the whole host name, or `labels`."""

    grant: Grant
    gateway: str
    session: str
    forwards_to: str
    name: str = ""
    url: str = ""
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def targets(self) -> list[str]:
        """Return what the credential's ACL must permit: the host name, or each label as key=value."""
        return [self.name] if self.name else [f"{key}={value}" for key, value in self.labels]

    def named(self, name: str, url: str) -> "Opening":
        return replace(self, name=name, url=url)

    def labelled(self, labels: tuple[tuple[str, str], ...]) -> "Opening":
        return replace(self, labels=labels)


@dataclass(frozen=True)
class Leased:
    """An online tunnel, as its gateway renews and closes it."""

    id: str
    account: str
    name: str
    gateway: str


@dataclass(frozen=True)
class Gateway:
    """A gateway that is up, and the host and port at which Envoy reaches its tunnels."""

    id: str
    host: str
    port: int


@dataclass(frozen=True)
class Site:
    """A tunnel that is to be served under its host name."""

    name: str
    tunnel: str
    account: str
    gateway: str


@dataclass(frozen=True)
class Certificate:
    """An uploaded certificate of an account, without its key. What an id stands for never changes."""

    id: str
    account: str
    names: tuple[str, ...]
    not_before: int
    not_after: int


@dataclass(frozen=True)
class Served:
    """All the records of which control makes its plan."""

    gateways: tuple[Gateway, ...] = ()
    sites: tuple[Site, ...] = ()
    certificates: tuple[Certificate, ...] = ()


class Store(Protocol):
    """The records, as the gateway and control use them. Every method raises Unavailable."""

    def hop_authority(self) -> Authority:
        """Return the authority of the hop, the same for every edge host and gateway; the first one makes it."""

    def grant_of_key(self, fingerprint: str) -> Grant | None:
        """Return what the credential with this key may do, None when there is none that is active."""

    def grant_of_certificate(self, authority: str, key_id: str) -> Grant | None:
        """Return what a user certificate may do that the authority with this fingerprint signed."""

    def grant_again(self, grant: Grant) -> Grant | None:
        """Return what the credential may do now, None when it is gone or may not act."""

    def open(self, opening: Opening, *, lease: int, most: int) -> Leased:
        """Bring a tunnel online for `lease` seconds. Raises NameTaken, NameBanned, TooManyTunnels (of `most`)."""

    def renew(self, tunnels: Sequence[Leased], *, lease: int) -> frozenset[str]:
        """Renew leases for `lease` seconds from now; return the ids of the tunnels that are offline already."""

    def close(self, tunnel: Leased) -> None:
        """Take a tunnel offline, its name with it."""

    def announce(self, gateway: Gateway, *, lease: int) -> None:
        """Say that a gateway is up, for so many seconds, and that what it carries may have changed."""

    def withdraw(self, gateway: str) -> None:
        """Say that a gateway is down."""

    def served(self) -> Served:
        """Return all that is to be served at this moment."""

    def key_pair(self, account: str, certificate: str) -> KeyPair | None:
        """Return an uploaded certificate with its key."""
