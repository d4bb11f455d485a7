"""The tunnel that an `ssh -R` asks for, read from the host and port that it wants to be listened on. Pure.

ssh sends "localhost" for `-R 80:…`, and an empty host or `*` where somebody wrote one of them.
"""

import re
import secrets
from dataclasses import dataclass

from chalicelib import domains
from chalicelib.model.names import KEPT
from edge.process.settings import Limits, Settings
from edge.store.records import (
    Grant,
    NameBanned,
    NameNotProved,
    NameNotReserved,
    NameOfEdge,
    NameTaken,
    Opening,
    TooManyTunnels,
)

AWAY = "The gateway cannot reach its store just now: try again in a moment."

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_ANY = frozenset({"", "*", "localhost", "127.0.0.1", "::1", "0.0.0.0", "::"})  # noqa: S104 (ssh's ways to name no host)

_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"  # of names that are drawn
_MOST_LABELS, _MOST_BYTES = 50, 255  # as many, and of each name and value as many, as of a tunnel group


class Refused(Exception):
    """A tunnel that is asked for and refused; the message is a sentence for the person at the other terminal."""


@dataclass(frozen=True)
class Named:
    """An https tunnel; `name` is the whole host name, or "" where the gateway is to choose one."""

    name: str


@dataclass(frozen=True)
class Labelled:
    """A backend tunnel that tunnel groups find by its labels."""

    labels: tuple[tuple[str, str], ...]


def read(host: str, port: int, domain: str) -> Named | Labelled:
    """Return the tunnel that an `ssh -R` asks for. Raises Refused, with the reason, for what is not offered."""
    _check_port(host, port)
    if "=" in host:
        return Labelled(_labels(host))
    if host in _ANY:
        return Named("")
    return Named(_own_domain(host, domain) or f"{_name(host, domain)}.{domain}")


@dataclass(frozen=True)
class Asking:
    """Who asks: a grant, on a session of a gateway, from an address, by an SSH client of a version."""

    grant: Grant
    gateway: str
    session: str
    address: str
    client: str


def opening_of(host: str, port: int, asking: Asking, settings: Settings) -> Opening:
    """Return the tunnel that is asked for; raise Refused for what there is not and what the grant does not permit."""
    asked = read(host, port, settings.tunnel_domain)
    grant, address = asking.grant, asking.address
    opening = Opening(grant, asking.gateway, asking.session, address, address=address, client=asking.client)
    if isinstance(asked, Labelled):
        opening = opening.labelled(asked.labels)
    else:
        name = asked.name or _given_name(asking.grant, settings.tunnel_domain)
        opening = opening.named(name, settings.url(name), is_drawn=not asked.name)
    for target in opening.targets:
        if not asking.grant.permits(target):
            raise Refused(f"The rules of {asking.grant.credential} do not let it bind {target}.")
    return opening


def reason(error: Exception, name: str, limits: Limits) -> str:
    """Return why the store did not open a tunnel."""
    match error:
        case NameTaken():
            return f"{name} is in use already: choose another name."
        case NameOfEdge():
            return f"An edge of your account listens on {name}: choose another name, or take it from the edge."
        case NameNotReserved():
            return f"Your account binds reserved names alone, and {name} is none of them: reserve it first."
        case NameNotProved():
            return f"{name} is not proved to be your account's: reserve it and set its TXT record first."
        case NameBanned():
            return f"{name} may not be used here: choose another name."
        case TooManyTunnels():
            return f"There are as many tunnels as there may be ({limits.max_tunnels_per_account} an account)."
    return AWAY


def shown(id: str, opening: Opening) -> str:
    """Return the lines that show an open tunnel in the terminal."""
    if opening.labels:
        labels = ", ".join(f"{key}={value}" for key, value in opening.labels)
        return f"The backend tunnel {id} is online with {labels}: tunnel groups of such labels lead to it."
    return f"{opening.url} is online."


def unkept(name: str) -> str:
    """Return what is told of a name that nobody has reserved."""
    return (
        f"Whoever asks for {name} has it when this client goes. "
        f'To keep it: POST /reserved_domains {{"domain": "{name}"}}'
    )


def _check_port(host: str, port: int) -> None:
    if port == 443:
        raise Refused("Port 443 (TLS passed through) is not served yet: ask for port 80, which is https outside.")
    if port != 80:
        raise Refused(f"Port {port} is not served yet: ask for port 80, which is https outside.")


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
    if name in KEPT or name.startswith("xn--"):
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
