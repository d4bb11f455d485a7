"""Control on a store in memory that holds so many accounts, each with a tunnel and a certificate: see edge_sites.py.

A line on stdin is a change: `upload`, `bad` or `open` and a number.
"""

import asyncio
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from chalicelib.model.gateways import Gateway
from chalicelib.model.tls_certificates import ServedCertificate
from edge.control.control import Control
from edge.link import authority
from edge.link.authority import KeyPair
from edge.process import memory
from edge.process.settings import Settings
from edge.store.records import Grant, Opening
from tests.edge.memory import Memory

_LONG = 100_000  # seconds
_PAIR = authority.make("Sites").issue("*.tunnels.localhost")  # of all: what is issued here is not measured
_NEXT = authority.make("Sites").issue("*.tunnels.localhost")


def upload(store: Memory, number: int, pair: KeyPair, days: int) -> None:
    """Put a certificate of an account into the store."""
    now, id = datetime.now(UTC), f"cert_{number:027}{days}"
    names = (f"s{number}.tunnels.localhost",)
    until = now + timedelta(days=days)
    store.upload(ServedCertificate(f"acct_{number}", id, pair.chain, names, now - timedelta(1), until), pair)


def open_tunnel(store: Memory, account: str, name: str) -> None:
    """Put a tunnel into the store."""
    opening = Opening(Grant(account, "sshcr_1", ()), "gw-1", "ts_1", "192.0.2.9", f"{name}.tunnels.localhost", "")
    store.open(opening, lease=_LONG, most=10)


async def main(folder: Path, edge_port: int, http_port: int, count: int) -> None:
    """Serve until stdin ends; the first line said is the CPU that it took to have everything encoded."""
    store = Memory()
    store.announce(Gateway("gw-1", "127.0.0.1", 1), lease=_LONG)
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
