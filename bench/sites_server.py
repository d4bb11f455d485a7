"""Control with a table in memory, for edge_sites.py. Each account has a tunnel and a certificate.

A line on stdin is a change: `upload`, `bad` or `open` and a number.
"""

import asyncio
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from chalicelib.model.tls.tls_certificates import ServedCertificate
from chalicelib.model.tunnels import gateways
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.control.control import Control
from edge.link import authority
from edge.link.authority import KeyPair
from edge.process import memory
from edge.process.settings import Settings
from tests.edge import process_table, served_records
from tests.edge.edge_table import EdgeTable

_LONG = 100_000  # seconds
_PAIR = authority.make("Sites").issue("*.tunnels.localhost")  # the same for all accounts: issuing is not measured
_NEXT = authority.make("Sites").issue("*.tunnels.localhost")


def upload(store: EdgeTable, number: int, pair: KeyPair, days: int) -> None:
    """Add a certificate of an account to the store."""
    now, id = datetime.now(UTC), f"cert_{number:027}{days}"
    names = (f"s{number}.tunnels.localhost",)
    until = now + timedelta(days=days)
    store.upload(ServedCertificate(f"acct_{number}", id, pair.chain, names, now - timedelta(1), until), pair)


def open_tunnel(account: str, number: int, name: str) -> None:
    """Open a tunnel in the store."""
    served_records.put_tunnel(ServedTunnel(account, f"tn_Test{number:023}", "gw-1", f"{name}.tunnels.localhost"))


async def main(folder: Path, edge_port: int, http_port: int, count: int) -> None:
    """Serve until stdin ends. The first output line is the CPU seconds until everything was encoded."""
    with process_table.serving():
        await serve(EdgeTable(), folder, edge_port, http_port, count)


async def serve(store: EdgeTable, folder: Path, edge_port: int, http_port: int, count: int) -> None:
    """Fill the table, and serve until stdin ends."""
    gateways.announce(Gateway("gw-1", "127.0.0.1", 1), lease=_LONG)
    for number in range(count):
        upload(store, number, _PAIR, 10)
        open_tunnel(f"acct_{number}", number, f"s{number}")
    served_records.clear_log()
    settings = Settings(directory=folder, edge_port=edge_port, http_port=http_port)
    began = time.process_time()
    serving = asyncio.create_task(Control(settings, store.authority).serve())
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
                open_tunnel(f"acct_new{number}", count + int(number), f"new{number}")
    serving.cancel()


if __name__ == "__main__":
    memory.collect_seldom()
    asyncio.run(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
