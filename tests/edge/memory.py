"""A store in memory, for the gateway and control alone."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from edge import authority
from edge.authority import Authority, KeyPair
from edge.records import (
    Certificate,
    Gateway,
    Grant,
    Leased,
    NameBanned,
    NameTaken,
    Opening,
    Served,
    Site,
    TooManyTunnels,
    Unavailable,
)


@dataclass
class Memory:
    """Implements edge.records.Store; its fields are what a test arranges and looks at."""

    keys: dict[str, Grant] = field(default_factory=dict)
    certificates: dict[tuple[str, str], Grant] = field(default_factory=dict)
    uploaded: list[Certificate] = field(default_factory=list)
    pairs: dict[str, KeyPair] = field(default_factory=dict)
    banned: set[str] = field(default_factory=set)
    gateways: dict[str, Gateway] = field(default_factory=dict)
    online: dict[str, tuple[Leased, Opening, float]] = field(default_factory=dict)
    authority: Authority = field(default_factory=lambda: authority.make("hop"))
    is_away: bool = False
    silent: set[str] = field(default_factory=set)  # names that it does not renew in time
    slow: dict[str, float] = field(default_factory=dict)  # seconds that it takes to open a tunnel of an account
    lock: threading.Lock = field(default_factory=threading.Lock)
    count: int = 0

    def hop_authority(self) -> Authority:
        return self.authority

    def grant_of_key(self, fingerprint: str) -> Grant | None:
        self._reach()
        return self.keys.get(fingerprint)

    def grant_of_certificate(self, authority: str, key_id: str) -> Grant | None:
        self._reach()
        return self.certificates.get((authority, key_id))

    def grant_again(self, grant: Grant) -> Grant | None:
        self._reach()
        known = [*self.keys.values(), *self.certificates.values()]
        return next((found for found in known if found.credential == grant.credential), None)

    def open(self, opening: Opening, *, lease: int, most: int) -> Leased:
        self._reach()
        time.sleep(self.slow.get(opening.grant.account, 0))
        with self.lock:
            if opening.name in self.banned:
                raise NameBanned
            live = [entry for entry in self.online.values() if entry[2] > time.time()]
            if sum(entry[1].grant.account == opening.grant.account for entry in live) >= most:
                raise TooManyTunnels
            for leased, other, _ in live:
                if opening.name and leased.name == opening.name:
                    if (other.grant.account, other.grant.credential) != (
                        opening.grant.account,
                        opening.grant.credential,
                    ):
                        raise NameTaken
                    del self.online[leased.id]
            self.count += 1
            new = Leased(f"tn_Test{self.count:023}", opening.grant.account, opening.name, opening.gateway)
            self.online[new.id] = (new, opening, time.time() + lease)
            return new

    def renew(self, tunnels: Sequence[Leased], *, lease: int) -> frozenset[str]:
        self._reach()
        if self.silent.intersection(tunnel.name for tunnel in tunnels):
            raise Unavailable
        with self.lock:
            lost = frozenset(tunnel.id for tunnel in tunnels if tunnel.id not in self.online)
            for tunnel in tunnels:
                if tunnel.id not in lost:
                    self.online[tunnel.id] = (*self.online[tunnel.id][:2], time.time() + lease)
            return lost

    def close(self, tunnel: Leased) -> None:
        self._reach()
        with self.lock:
            self.online.pop(tunnel.id, None)

    def announce(self, gateway: Gateway, *, lease: int) -> None:
        self._reach()
        self.gateways[gateway.id] = gateway

    def withdraw(self, gateway: str) -> None:
        self._reach()
        self.gateways.pop(gateway, None)

    def served(self) -> Served:
        self._reach()
        with self.lock:
            live = [entry for entry in self.online.values() if entry[2] > time.time() and entry[0].name]
            sites = tuple(Site(leased.name, leased.id, leased.account, opening.gateway) for leased, opening, _ in live)
            return Served(tuple(self.gateways.values()), sites, tuple(self.uploaded))

    def key_pair(self, account: str, certificate: str) -> KeyPair | None:
        self._reach()
        return self.pairs.get(certificate) if account else None

    def _reach(self) -> None:
        if self.is_away:
            raise Unavailable
