"""Grants, tunnels to open, the hosts of an account, and the errors of the store."""

from dataclasses import dataclass, replace

from chalicelib.model.ssh import acl
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import Proto, ServedTunnel


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


@dataclass(frozen=True)
class AccountHosts:
    """The hosts of an account's edges and online tunnels.

    `gateways` are the ids of the gateways of all its tunnels. If one of these gateways changes, the hosts can change.
    """

    hosts: frozenset[str] = frozenset()
    gateways: frozenset[str] = frozenset()
