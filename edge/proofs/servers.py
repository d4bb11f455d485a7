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
from edge.proofs.transport import Bounded

# an authoritative server of the zone, or a recursive resolver
Role: TypeAlias = Literal["authoritative", "resolver"]

_MOST_NAMES = 8  # the most NS records of a zone for which addresses are looked up
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


class Fixed:
    """Returns the servers in DNS_SERVERS for every domain name."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self._panel = Panel(tuple(servers), quorum=min(2, len(servers)), role="resolver")

    async def panel(self, name: Name) -> Panel:
        return self._panel


class Reach(Protocol):
    """A function that decides whether the name server at an address may be queried."""

    def __call__(self, address: str, /) -> bool: ...


class Own:
    """Finds the authoritative name servers of a domain name's zone.

    It uses the resolver of this host. At most `most` servers are queried, only at addresses that `may_ask` permits. If
    there are fewer than `least` such addresses, the name counts as unreachable.
    """

    def __init__(
        self, finder: dns.asyncresolver.Resolver, *, may_ask: Reach, port: int = 53, most: int = 4, least: int = 2
    ) -> None:
        self._finder, self._may_ask, self._port, self._most, self._least = finder, may_ask, port, most, least

    async def panel(self, name: Name) -> Panel:
        try:
            zone = await dns.asyncresolver.zone_for_name(name, resolver=self._finder)
            found = await self._finder.resolve(zone, dns.rdatatype.NS)
        except (dns.exception.DNSException, OSError):
            raise Unreachable(f"The name servers of {_text(name)} cannot be found.") from None
        hosts = sorted({it.target for it in found})[:_MOST_NAMES]
        addresses = await asyncio.gather(*(find_addresses(self._finder, host) for host in hosts))
        asked = [it for it in _in_turn(addresses) if self._may_ask(it)][: self._most]
        if len(asked) < self._least:
            count = "only one name server" if asked else "no name server"
            raise Unreachable(f"{_text(name)} has {count} with a public address: at least two are required.")
        return Panel(tuple(Server(address, self._port) for address in asked))


def source(settings: Sequence[tuple[str, int]], resolvers: Path = Path("/etc/resolv.conf")) -> Source:
    """Return the source of name servers for this host.

    The source returns the resolvers in `settings`, the value of DNS_SERVERS. If `settings` is empty, it finds the
    public name servers of each zone by this host's DNS resolver. Raises SettingError if it needs this resolver and
    there is none.
    """
    if settings:
        return Fixed([Server(*it) for it in settings])
    return Own(finder((), resolvers), may_ask=addresses.is_public)


def every_source(settings: Sequence[tuple[str, int]]) -> Source:
    """Return a source that finds up to eight name servers of a zone. Raises SettingError.

    Unlike the servers from `source`, they can have private addresses, and a single server is enough. If `settings`
    (DNS_SERVERS) is not empty, the source returns the resolvers in it.
    """
    if settings:
        return Fixed([Server(*it) for it in settings])
    return Own(finder(()), may_ask=lambda _: True, most=_MOST_NAMES, least=1)


def finder(
    settings: Sequence[tuple[str, int]], resolvers: Path = Path("/etc/resolv.conf")
) -> dns.asyncresolver.Resolver:
    """Return a resolver that queries DNS_SERVERS, or, if that is not set, this host's name servers.

    `settings` is the value of DNS_SERVERS. Raises SettingError.
    """
    if settings:
        found = dns.asyncresolver.Resolver(configure=False)
        found.nameservers = [Bounded(*it) for it in settings]
        return found
    try:
        return bounded(dns.asyncresolver.Resolver(str(resolvers)))
    except dns.resolver.NoResolverConfiguration:
        raise SettingError(
            f"This host has no DNS resolver to find name servers with. Add one to {resolvers}, or set DNS_SERVERS."
        ) from None


def bounded(finder: dns.asyncresolver.Resolver) -> dns.asyncresolver.Resolver:
    """Make a resolver reject answers above 4 KiB or 64 records."""
    finder.nameservers = [Bounded(str(it), finder.port) for it in finder.nameservers]
    return finder


async def find_addresses(finder: dns.asyncresolver.Resolver, host: Name) -> list[str]:
    """Return the IP addresses of a host, IPv4 first. The list is empty if the name servers do not answer."""
    of_kinds = await asyncio.gather(*(_resolve(finder, host, kind) for kind in ("A", "AAAA")))
    return list(chain(*of_kinds))


async def _resolve(finder: dns.asyncresolver.Resolver, host: Name, kind: str) -> list[str]:
    try:
        return [it.address for it in await finder.resolve(host, kind, lifetime=_TIMEOUT)]
    except (dns.exception.DNSException, OSError):
        return []


def _in_turn(lists: Iterable[Sequence[str]]) -> list[str]:
    """Return the items of several lists in turn, without duplicates.

    The result has the first item of each list, then the second item of each list, and so on.
    """
    return list(dict.fromkeys(it for turn in zip_longest(*lists) for it in turn if it))


def _text(name: Name) -> str:
    return name.to_text(omit_final_dot=True)
