"""Finds the name servers to query about a domain.

They are the authoritative servers of its zone at public addresses, or, if the operator has set DNS_SERVERS, the
resolvers in this setting.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias

import dns.asyncresolver
import dns.exception
import dns.name
import dns.rdatatype
import dns.resolver
from dns.name import Name

from chalicelib.federation import addresses
from edge.process.settings import SettingError
from edge.proofs.transport import BoundedNameserver

# an authoritative server of the zone, or a recursive resolver
Role: TypeAlias = Literal["authoritative", "resolver"]

_MAX_NAMES = 8  # the most NS records of a zone for which addresses are looked up
_TIMEOUT = 1.5  # the most seconds until this host's resolver answers


class Server(NamedTuple):
    """The address of a name server."""

    address: str
    port: int


class Unreachable(Exception):
    """No name server can be queried about a domain name. The message is a sentence."""


@dataclass(frozen=True)
class Panel:
    """The name servers to query about one domain name. At least `quorum` of them must agree."""

    servers: tuple[Server, ...]
    quorum: int = 2
    role: Role = "authoritative"


class Source(Protocol):
    """Finds the name servers to query about a domain name."""

    async def panel(self, name: Name) -> Panel:
        """Return the name servers to query about a domain name. Raises Unreachable."""


class ConfiguredServers:
    """Returns the servers in DNS_SERVERS for every domain name."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self._panel = Panel(tuple(servers), quorum=min(2, len(servers)), role="resolver")

    async def panel(self, name: Name) -> Panel:
        return self._panel


class Reach(Protocol):
    """A function that decides whether the name server at an address may be queried."""

    def __call__(self, address: str, /) -> bool: ...


class AuthoritativeServers:
    """Finds the authoritative name servers of a domain name's zone, by the resolver of this host.

    At most `max_servers` servers are queried, only at addresses that `may_ask` permits. If there are fewer than
    `min_servers` such addresses, the name counts as unreachable.
    """

    def __init__(
        self,
        finder: dns.asyncresolver.Resolver,
        *,
        may_ask: Reach,
        port: int = 53,
        max_servers: int = 4,
        min_servers: int = 2,
    ) -> None:
        self._finder, self._may_ask, self._port, self._max_servers, self._min_servers = (
            finder,
            may_ask,
            port,
            max_servers,
            min_servers,
        )

    async def panel(self, name: Name) -> Panel:
        try:
            zone = await dns.asyncresolver.zone_for_name(name, resolver=self._finder)
            records = await self._finder.resolve(zone, dns.rdatatype.NS)
        except (dns.exception.DNSException, OSError):
            raise Unreachable(
                f"The name servers of {_text(name)} cannot be found: check the domain and its NS records."
            ) from None
        hosts = sorted({record.target for record in records})[:_MAX_NAMES]
        addresses = await asyncio.gather(*(find_addresses(self._finder, host) for host in hosts))
        targets = [address for address in _interleave(addresses) if self._may_ask(address)][: self._max_servers]
        if len(targets) < self._min_servers:
            count = "only one name server" if targets else "no name server"
            raise Unreachable(f"{_text(name)} has {count} with a public address: at least two are required.")
        return Panel(tuple(Server(address, self._port) for address in targets))


def build_source(settings: Sequence[tuple[str, int]], resolvers: Path = Path("/etc/resolv.conf")) -> Source:
    """Return the source of name servers for this host.

    `settings` is the value of DNS_SERVERS. If it is not empty, the source returns these resolvers. Otherwise, the
    source finds the public name servers of each zone by this host's DNS resolver. Raises SettingError if this resolver
    is needed and there is none.
    """
    if settings:
        return ConfiguredServers([Server(*setting) for setting in settings])
    return AuthoritativeServers(build_resolver((), resolvers), may_ask=addresses.is_public)


def build_complete_source(settings: Sequence[tuple[str, int]]) -> Source:
    """Return a source that finds up to eight name servers of a zone. Raises SettingError.

    Unlike the servers from `build_source`, these servers can have private addresses, and a single server is enough. If
    `settings` (DNS_SERVERS) is not empty, the source returns the resolvers in it.
    """
    if settings:
        return ConfiguredServers([Server(*setting) for setting in settings])
    return AuthoritativeServers(build_resolver(()), may_ask=lambda _: True, max_servers=_MAX_NAMES, min_servers=1)


def build_resolver(
    settings: Sequence[tuple[str, int]], resolvers: Path = Path("/etc/resolv.conf")
) -> dns.asyncresolver.Resolver:
    """Return a resolver that queries DNS_SERVERS, or, if that is not set, this host's name servers.

    `settings` is the value of DNS_SERVERS. Raises SettingError.
    """
    if settings:
        resolver = dns.asyncresolver.Resolver(configure=False)
        resolver.nameservers = [BoundedNameserver(*setting) for setting in settings]
        return resolver
    try:
        return limit_answers(dns.asyncresolver.Resolver(str(resolvers)))
    except dns.resolver.NoResolverConfiguration:
        raise SettingError(
            f"This host has no DNS resolver to find name servers with. Add one to {resolvers}, or set DNS_SERVERS."
        ) from None


def limit_answers(finder: dns.asyncresolver.Resolver) -> dns.asyncresolver.Resolver:
    """Make a resolver reject answers above 4 KiB or 64 records."""
    finder.nameservers = [BoundedNameserver(str(nameserver), finder.port) for nameserver in finder.nameservers]
    return finder


async def find_addresses(finder: dns.asyncresolver.Resolver, host: Name) -> list[str]:
    """Return the IP addresses of a host, IPv4 first. The list is empty if the name servers do not answer."""
    of_kinds = await asyncio.gather(*(_resolve(finder, host, kind) for kind in ("A", "AAAA")))
    return list(chain(*of_kinds))


async def _resolve(finder: dns.asyncresolver.Resolver, host: Name, kind: str) -> list[str]:
    try:
        return [record.address for record in await finder.resolve(host, kind, lifetime=_TIMEOUT)]
    except (dns.exception.DNSException, OSError):
        return []


def _interleave(lists: Iterable[Sequence[str]]) -> list[str]:
    """Return the items of several lists in turn, without duplicates.

    The result has the first item of each list, then the second item of each list, and so on.
    """
    return list(dict.fromkeys(address for turn in zip_longest(*lists) for address in turn if address))


def _text(name: Name) -> str:
    return name.to_text(omit_final_dot=True)
