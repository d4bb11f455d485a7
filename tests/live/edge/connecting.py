"""How many connections each visitor gets in a network namespace of its own, under the rules of a firewall.

Run as a program by `unshare`: the file of the rules, how many each visitor begins, and the visitors' addresses.
"""

import contextlib
import json
import socket
import subprocess
import sys

_PORT = 443


def main(rules: str, attempts: str, *visitors: str) -> None:
    """Print the connections of each visitor, all of which stay open."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for visitor in (address for address in visitors if ":" in address):
        subprocess.run(["ip", "address", "add", f"{visitor}/64", "dev", "lo", "nodad"], check=True)
    subprocess.run(["nft", "-f", rules], check=True)
    with (
        contextlib.ExitStack() as stack,
        socket.create_server(("::", _PORT), family=socket.AF_INET6, backlog=1024, dualstack_ipv6=True),
    ):
        print(json.dumps({visitor: _connections(visitor, int(attempts), stack) for visitor in visitors}))


def _connections(visitor: str, attempts: int, stack: contextlib.ExitStack) -> int:
    count, server = 0, visitor if ":" in visitor else "127.0.0.1"
    for _ in range(attempts):
        with contextlib.suppress(TimeoutError):
            stack.enter_context(socket.create_connection((server, _PORT), 0.05, (visitor, 0)))
            count += 1
    return count


if __name__ == "__main__":
    main(*sys.argv[1:])
