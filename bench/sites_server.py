"""Control with a store in memory, for edge_sites.py. Each account has a tunnel and a certificate.

A line on stdin is a change: `upload`, `bad` or `open` and a number.
"""

import asyncio
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from chalicelib.model.base import kinds
from chalicelib.model.tls.tls_certificates import SealedCertificate, ServedCertificate
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.control.control import Control
from edge.link import authority
from edge.link.authority import KeyPair
from edge.process import memory
from edge.process.settings import Settings
from edge.store.records import Grant, Opening
from tests.edge.memory import Memory

_LONG = 100_000  # seconds
_PAIR = authority.make("Sites").issue("*.tunnels.localhost")  # the same for all accounts: issuing is not measured
_NEXT = authority.make("Sites").issue("*.tunnels.localhost")


@dataclass
class Store(Memory):
    """A store with constant costs at any size, because it runs in the measured process."""

    of_account: defaultdict[str, list[SealedCertificate]] = field(default_factory=lambda: defaultdict(list))

    def upload(self, certificate: ServedCertificate, pair: KeyPair) -> None:
        self.of_account[certificate.account].append(SealedCertificate(certificate, b""))
        super().upload(certificate, pair)

    def certificates(self, account: str) -> list[SealedCertificate]:
        return self.of_account[account]

    def carry(self, tunnel: ServedTunnel) -> None:
        """Add an open tunnel to the store."""
        opening = Opening(Grant(tunnel.account, "sshcr_1", ()), tunnel.gateway, "ts_1", "192.0.2.9", tunnel.name)
        self.online[tunnel.id] = tunnel, opening
        self.tell(tunnel.account, kinds.TUNNELS.path, tunnel.id)


def upload(store: Store, number: int, pair: KeyPair, days: int) -> None:
    """Add a certificate of an account to the store."""
    now, id = datetime.now(UTC), f"cert_{number:027}{days}"
    names = (f"s{number}.tunnels.localhost",)
    until = now + timedelta(days=days)
    store.upload(ServedCertificate(f"acct_{number}", id, pair.chain, names, now - timedelta(1), until), pair)


def open_tunnel(store: Store, account: str, name: str) -> None:
    """Open a tunnel in the store."""
    id, until = f"tn_Test{len(store.online):023}", int(time.time()) + _LONG
    store.carry(ServedTunnel(account, id, "gw-1", f"{name}.tunnels.localhost", until))


async def main(folder: Path, edge_port: int, http_port: int, count: int) -> None:
    """Serve until stdin ends. The first output line is the CPU seconds until everything was encoded."""
    store = Store()
    store.announce_gateway(Gateway("gw-1", "127.0.0.1", 1), lease=_LONG)
    for number in range(count):
        upload(store, number, _PAIR, 10)
        open_tunnel(store, f"acct_{number}", f"s{number}")
    store.log.clear()
    settings = Settings(directory=folder, edge_port=edge_port, http_port=http_port)
    began = time.process_time()
    serving = asyncio.create_task(Control(settings, store, store.authority).serve())
    while not settings.discovery_socket.exists():
        await asyncio.sleep(0.005)
    print(time.process_time() - began, flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        match line.split():
            case ["upload", number]:
                upload(store, int(number), _NEXT, 20)
            case ["bad", number]:
                upload(store, int(number), KeyPair("no certificate", "no key"), 20)
            case ["open", number]:
                open_tunnel(store, f"acct_new{number}", f"new{number}")
    serving.cancel()


if __name__ == "__main__":
    memory.collect_seldom()
    asyncio.run(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
