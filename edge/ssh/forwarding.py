"""The tunnel that an `ssh -R` asks for, read from the host and port that it wants to be listened on. Pure.

ssh sends "localhost" for `-R 80:…`, and an empty host or `*` where somebody wrote one of them.
"""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from chalicelib import domains
from chalicelib.model.names import OPERATOR_NAMES
from edge.process.settings import Limits, Settings
from edge.store.records import (
    Grant,
    NameBanned,
    NameNotProved,
    NameNotReserved,
    NameOfEdge,
    NameTaken,
    NameUnreadable,
    Opening,
    TooManyTunnels,
)

NO_PORT = "All ports that you may have are in use or reserved: none is left."
AWAY = "The gateway cannot reach its store just now: try again in a moment."

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_PROTOCOLS: Mapping[int, Literal["https", "tls"]] = {80: "https", 443: "tls"}  # by the port that is asked for
_LABELLED = 80
_ANY = frozenset({"", "*", "localhost", "127.0.0.1", "::1", "0.0.0.0", "::"})  # noqa: S104 (ssh's ways to name no host)

_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"  # of names that are drawn
_MOST_LABELS, _MOST_BYTES = 50, 255  # as many, and of each name and value as many, as of a tunnel group


class Refused(Exception):
    """A tunnel that is asked for and refused; the message is a sentence for the person at the other terminal."""


@dataclass(frozen=True)
class Named:
    """A tunnel of https, or of TLS passed through; `name` is the whole host name, "" for one of chance."""

    name: str
    proto: Literal["https", "tls"] = "https"


@dataclass(frozen=True)
class Port:
    """A tunnel of TCP on a port of the whole domain, 0 for one of chance. `is_drawn`: it was that."""

    number: int
    is_drawn: bool = False


@dataclass(frozen=True)
class Labelled:
    """A backend tunnel that tunnel groups find by its labels."""

    labels: tuple[tuple[str, str], ...]


Asked: TypeAlias = Named | Labelled | Port


def read(host: str, port: int, settings: Settings) -> Asked:
    """Return the tunnel that an `ssh -R` asks for. Raises Refused, with the reason, for what is not offered."""
    domain = settings.tunnel_domain
    if port not in _PROTOCOLS:
        return _port(host, port, settings)
    if "=" in host:
        if port != _LABELLED:
            raise Refused(f"A tunnel with labels asks for port {_LABELLED}, whatever its visitors speak.")
        return Labelled(_labels(host))
    name = "" if host in _ANY else _own_domain(host, domain) or f"{_name(host, domain)}.{domain}"
    return Named(name, _PROTOCOLS[port])


@dataclass(frozen=True)
class Asking:
    """The asker: a grant, on a session of a gateway, from an address, by an SSH client of a version."""

    grant: Grant
    gateway: str
    session: str
    address: str
    client: str


def opening_of(asked: Asked, asking: Asking, settings: Settings) -> Opening:
    """Return the tunnel that is asked for, with a name of chance where one is; raise Refused where the grant has no
    right to it.
    """
    grant, address = asking.grant, asking.address
    opening = Opening(grant, asking.gateway, asking.session, address, address=address, client=asking.client)
    match asked:
        case Labelled():
            opening = opening.labelled(asked.labels)
        case Port():
            name = settings.address(asked.number)
            named = opening.drawn if asked.is_drawn else opening.named
            opening = named(name, f"tcp://{name}", "tcp")
        case Named():
            name = asked.name or _given_name(grant, settings.tunnel_domain)
            url = settings.url(name, asked.proto)
            opening = (opening.named if asked.name else opening.drawn)(name, url, asked.proto)
    for target in opening.targets:
        if not grant.permits(target):
            raise Refused(f"The rules of {grant.credential} do not let it bind {target}.")
    return opening


def addresses(grant: Grant, settings: Settings) -> list[str]:
    """Return the addresses of ports that a grant may bind; raise Refused where there is none."""
    found = [address for address in map(settings.address, settings.tcp_ports) if grant.permits(address)]
    if not found:
        raise Refused(f"The rules of {grant.credential} permit no port of chance: ask for one, -R 20022:….")
    return found


def port_of(opening: Opening, port: int) -> int:
    """Return the port of an opening that was asked for at a port, which may be 0."""
    return int(opening.name.rpartition(":")[2]) if opening.proto == "tcp" else port


def reason(error: Exception, name: str, limits: Limits) -> str:
    """Return why the store did not open a tunnel of a name or address."""
    kind = "port" if ":" in name else "name"
    match error:
        case NameTaken():
            return f"{name} is in use already: choose another {kind}."
        case NameOfEdge():
            return f"An edge of your account listens on {name}: choose another {kind}, or take it from the edge."
        case NameNotReserved():
            it = "one" if kind == "port" else "it"  # a reservation draws its port
            return f"Your account binds reserved {kind}s alone, and {name} is none of them: reserve {it} first."
        case NameNotProved():
            return f"{name} is not proved to be your account's: reserve it and set its TXT record first."
        case NameUnreadable():
            return f"The record of the reservation of {name} cannot be understood: tell the operator."
        case NameBanned():
            return f"{name} may not be used here: choose another {kind}."
        case TooManyTunnels():
            return f"There are as many tunnels as there may be ({limits.max_tunnels_per_account} an account)."
    return AWAY


def shown(id: str, opening: Opening) -> str:
    """Return the lines that show an open tunnel in the terminal."""
    if opening.labels:
        labels = ", ".join(f"{key}={value}" for key, value in opening.labels)
        return f"The backend tunnel {id} is online with {labels}: tunnel groups of such labels lead to it."
    return f"{opening.url} is online."


def unserved(url: str, refusal: str) -> str:
    """Return the sentence about a port that an edge host does not get, or gets after all."""
    if not refusal:
        return f"{url} is open now."
    return f"{url} is not open: {refusal}. It is tried again every few seconds."


def unkept(name: str) -> str:
    """Return the advice about a name or address that nobody has reserved."""
    how = "To have one that stays: POST /reserved_addrs {}"
    if ":" not in name:
        how = f'To keep it: POST /reserved_domains {{"domain": "{name}"}}'
    return f"Whoever asks for {name} has it when this client goes. {how}"


def _port(host: str, port: int, settings: Settings) -> Port:
    ports, others = settings.tcp_ports, "80 (https) or 443 (TLS that is passed through)"
    if not ports:
        raise Refused(f"Ports of TCP are not served here: ask for port {others}.")
    if port and port not in ports:
        served = f"{ports[0]} to {ports[-1]}"
        raise Refused(f"Port {port} is not served here: ask for one from {served}, for 0, or for {others}.")
    if host not in _ANY and host.lower().removesuffix(".") != settings.tunnel_domain:
        raise Refused(f"A port of TCP is the whole domain's and has no name: write -R {port}:….")
    return Port(port)


def _labels(host: str) -> tuple[tuple[str, str], ...]:
    pairs = [text.partition("=") for text in host.split(",")]
    if any(not key or not value or "*" in key + value for key, _, value in pairs):
        raise Refused(f"{_quoted(host)} is no label: write label=value, several with commas between them.")
    if len(pairs) > _MOST_LABELS:
        raise Refused(f"A tunnel has at most {_MOST_LABELS} labels, and {len(pairs)} are asked for.")
    if any(len(text.encode()) > _MOST_BYTES for key, _, value in pairs for text in (key, value)):
        raise Refused(f"The name or the value of a label is longer than {_MOST_BYTES} bytes.")
    return tuple(sorted({key: value for key, _, value in pairs}.items()))


def _own_domain(host: str, domain: str) -> str:
    """Return a host that is not below the domain, "" for one that is, and for what is none."""
    try:
        name = domains.normal(host)
    except ValueError:
        return ""
    return "" if domains.is_below(name, domain) or name.startswith(domains.WILDCARD) else name


def _name(host: str, domain: str) -> str:
    name = host.lower().removesuffix(".").removesuffix(f".{domain}")
    if not _NAME.fullmatch(name):
        raise Refused(
            f"{_quoted(host)} is no name for a tunnel: use letters, digits and hyphens, with or without .{domain}."
        )
    if name in OPERATOR_NAMES or name.startswith("xn--"):
        raise Refused(f"The name {name} is reserved: choose another.")
    return name


def _quoted(text: str) -> str:
    """Return the text without what could move a terminal's cursor, and at most 80 characters of it."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:80]


def _given_name(grant: Grant, domain: str) -> str:
    drawn = "".join(secrets.choice(_ALPHABET) for _ in range(10))
    name = f"{drawn}.{domain}"
    if not grant.permits(name):
        raise Refused(f"The rules of {grant.credential} permit no name of chance: ask for one, -R name:80:….")
    return name
