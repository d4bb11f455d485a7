"""Parsers of environment variables. Each raises InvalidText with a sentence for the operator. This file does no I/O."""

import ipaddress
import re

from chalicelib import domains, port_ranges

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


class InvalidText(Exception):
    """The value of an environment variable is invalid. The message is a sentence for the operator."""


def count(name: str, text: str) -> int:
    """Parse the value of a limit: a whole number of at least 1."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise InvalidText(f"{name}={text} must be a whole number of at least 1.")
    return int(text)


def port(name: str, text: str) -> int:
    """Parse the number of a port. Only HOP_PORT can be 0, for any free port."""
    least = 0 if name == "HOP_PORT" else 1
    if not text.isascii() or not text.isdecimal() or not least <= int(text) <= 65535:
        raise InvalidText(f"{name}={text} is not a port: choose one from {least} to 65535.")
    return int(text)


def ports(text: str) -> range:
    """Parse the range of ports in TCP_PORTS."""
    try:
        return port_ranges.parse(text)
    except ValueError:
        raise InvalidText(
            f"TCP_PORTS={text} is not a range of ports: write it like 20000-20099, or name one port."
        ) from None


def domain(text: str) -> str:
    """Parse TUNNEL_DOMAIN. Return the domain in its normal form."""
    try:
        return domains.normalize(text.strip())
    except ValueError as error:
        raise InvalidText(f"TUNNEL_DOMAIN={text} is invalid: it {error}.") from None


def network(name: str, text: str) -> str:
    """Parse an IP network. Return it in its normal form."""
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        raise InvalidText(f"{name} names {text}, which is not a network: write it like 10.0.0.0/8.") from None


def server(name: str, text: str) -> tuple[str, int]:
    """Parse a name server: an IP address or address:port, with brackets around an IPv6 address."""
    host, colon, number = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, number = text, "53"
    if address := _address(host):
        return address, port(name, number)
    raise InvalidText(f"{name} names {text}, which is not an address: write it like 127.0.0.1:5353 or [::1]:53.")


def peer(name: str, text: str) -> tuple[str, int]:
    """Parse host:port. The host is a name or an IP address, with brackets around an IPv6 address."""
    host, _, number = text.rpartition(":")
    if address := _address(host) or (host if _HOST.fullmatch(host) else ""):
        return address, port(name, number)
    raise InvalidText(f"{name} names {text}, which is not a host with a port: write it like 10.0.0.5:4440.")


def _address(host: str) -> str:
    """Return an IP address in its normal form. Return "" for any other text."""
    try:
        return str(ipaddress.ip_address(host.removeprefix("[").removesuffix("]")))
    except ValueError:
        return ""
