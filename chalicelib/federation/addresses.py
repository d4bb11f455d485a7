"""IP addresses to which the service may connect: only public ones.

This file has lists of networks, because the standard library's `is_global` also accepts NAT64, 6to4, multicast and
site-local addresses.
"""

import ipaddress
import socket
import threading
from collections.abc import Callable

Resolve = Callable[[str, int], list[str]]  # a function that returns the addresses of a host and port; raises OSError

_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
_SPECIAL_V6 = [
    ipaddress.IPv6Network(text)
    for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")  # Teredo addresses are in 2001::/23
]
_SPECIAL_V4 = [
    ipaddress.IPv4Network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3"),
    )
]


def is_public(text: str) -> bool:
    """Return whether a text is a public IP address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _SPECIAL_V4)
    return address in _PUBLIC_V6 and not any(address in network for network in _SPECIAL_V6)


def look_up(host: str, port: int) -> list[str]:
    """Return the addresses of a host from the system's resolver, IPv4 first. Raises OSError."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    ordered = sorted(entries, key=lambda entry: entry[0] != socket.AF_INET)
    return list(dict.fromkeys(str(entry[4][0]) for entry in ordered))


def resolve(host: str, port: int, *, seconds: float, by: Resolve = look_up) -> list[str]:
    """Return the addresses of a host. Raises TimeoutError after `seconds`, and OSError.

    The system's resolver has no timeout, so it runs in a thread.
    """
    addresses: list[str] = []
    errors: list[Exception] = []

    def ask() -> None:
        try:
            addresses.extend(by(host, port))
        except (OSError, UnicodeError) as error:
            errors.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError
    if errors or not addresses:
        raise OSError("no address")
    return addresses
