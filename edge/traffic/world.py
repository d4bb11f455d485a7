"""The world that an edge host serves: gateways, tunnels and certificates as they are known, changed one by one. Pure.

Here alone stands which tunnel and which certificate answer a host name.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from chalicelib.model.gateways import Gateway
from chalicelib.model.tls_certificates import ServedCertificate
from chalicelib.model.tunnels import Carried

OPERATOR = "operator"  # in the place of a certificate's id: the operator's own, which every unknown name has too


@dataclass(frozen=True)
class Gone:
    """The gateway, tunnel or certificate of an id is not there any more."""

    id: str


Known: TypeAlias = Gateway | Carried | ServedCertificate
Fact: TypeAlias = Known | Gone


@dataclass(frozen=True)
class Site:
    """A host name that is served: by a tunnel, under the certificate of an id."""

    name: str
    tunnel: Carried
    certificate: str


class World:
    """All that is known, by id: ids are of one kind each."""

    def __init__(self) -> None:
        self.gateways: dict[str, Gateway] = {}
        self.tunnels: dict[str, Carried] = {}
        self.certificates: dict[str, ServedCertificate] = {}
        self._by_name: defaultdict[str, dict[str, Carried]] = defaultdict(dict)
        self._by_account: defaultdict[str, dict[str, Carried]] = defaultdict(dict)
        self._by_gateway: defaultdict[str, dict[str, Carried]] = defaultdict(dict)
        self._of_account: defaultdict[str, dict[str, ServedCertificate]] = defaultdict(dict)
        self._ready: dict[str, frozenset[str]] = {}

    def known(self, id: str) -> Known | None:
        """Return the fact that is known under an id."""
        return self.gateways.get(id) or self.tunnels.get(id) or self.certificates.get(id)

    def take(self, fact: Fact) -> frozenset[str]:
        """Take up a fact; return the names for which something else may be served now."""
        before = self.known(fact.id)
        if before == fact or (before is None and isinstance(fact, Gone)):
            return frozenset()
        touched = self._drop(before) if before else frozenset()
        return touched if isinstance(fact, Gone) else touched | self._add(fact)

    def ready(self, account: str, names: frozenset[str]) -> frozenset[str]:
        """Hear that all certificates of an account which cover some of its names are known; return the new ones.

        A name is not served before, so that it never has a wrong certificate first.
        """
        before, self._ready[account] = self._ready.get(account, frozenset()), names
        return names - before

    def ready_of(self, account: str) -> frozenset[str]:
        return self._ready.get(account, frozenset())

    def waits(self, tunnel: Carried) -> bool:
        """Tell whether a tunnel's name waits for the certificates of its account."""
        return tunnel.name not in self._ready.get(tunnel.account, ())

    def accounts(self) -> list[str]:
        """Return the accounts that have names."""
        return list(self._by_account)

    def names_of(self, account: str) -> frozenset[str]:
        return frozenset(tunnel.name for tunnel in self._by_account.get(account, {}).values())

    def carried_by(self, gateway: str) -> list[Carried]:
        return list(self._by_gateway.get(gateway, {}).values())

    def certificates_of(self, account: str) -> list[ServedCertificate]:
        return list(self._of_account.get(account, {}).values())

    def site(self, name: str, now: datetime) -> Site | None:
        """Return the site of a name: its newest tunnel whose gateway is up, under the best certificate."""
        up = [it for it in self._by_name.get(name, {}).values() if it.gateway in self.gateways]
        if not up:
            return None
        newest = max(up, key=lambda tunnel: tunnel.id)  # where a name was taken over
        if self.waits(newest):
            return None
        return Site(name, newest, best(name, self.certificates_of(newest.account), now))

    def _add(self, fact: Known) -> frozenset[str]:
        match fact:
            case Gateway():
                self.gateways[fact.id] = fact
            case Carried():
                self.tunnels[fact.id] = fact
                for index, key in self._indexes(fact):
                    index[key][fact.id] = fact
            case ServedCertificate():
                self.certificates[fact.id] = fact
                self._of_account[fact.account][fact.id] = fact
        return self._touched(fact)

    def _drop(self, fact: Known) -> frozenset[str]:
        touched = self._touched(fact)
        match fact:
            case Gateway():
                del self.gateways[fact.id]
            case Carried():
                del self.tunnels[fact.id]
                for index, key in self._indexes(fact):
                    _remove(index, key, fact.id)
            case ServedCertificate():
                del self.certificates[fact.id]
                _remove(self._of_account, fact.account, fact.id)
        return touched

    def _indexes(self, tunnel: Carried) -> Iterable[tuple[defaultdict[str, dict[str, Carried]], str]]:
        by_gateway = (self._by_gateway, tunnel.gateway)
        return (self._by_name, tunnel.name), (self._by_account, tunnel.account), by_gateway

    def _touched(self, fact: Known) -> frozenset[str]:
        match fact:
            case Gateway():
                return frozenset(tunnel.name for tunnel in self.carried_by(fact.id))
            case Carried():
                return frozenset({fact.name})
            case ServedCertificate():
                return frozenset(name for name in self.names_of(fact.account) if covers_any(fact, name))


def best(name: str, certificates: Iterable[ServedCertificate], now: datetime) -> str:
    """Return the id of the certificate that covers a name, of several the one that runs longest; else OPERATOR."""
    fitting = [it for it in certificates if it.not_before <= now < it.not_after and covers_any(it, name)]
    return max(fitting, key=lambda it: (it.not_after, it.id)).id if fitting else OPERATOR


def covers_any(certificate: ServedCertificate, name: str) -> bool:
    """Tell whether a certificate stands for a host name."""
    return any(covers(pattern, name) for pattern in certificate.names)


def covers(pattern: str, name: str) -> bool:
    """Tell whether a name in a certificate stands for a host name; a wildcard is one label (RFC 6125)."""
    pattern = pattern.lower()
    return pattern == name or (pattern.startswith("*.") and pattern[2:] == name.partition(".")[2])


def _remove(
    index: "defaultdict[str, dict[str, Carried]] | defaultdict[str, dict[str, ServedCertificate]]", key: str, id: str
) -> None:
    del index[key][id]
    if not index[key]:
        del index[key]
