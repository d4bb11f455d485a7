"""Parses the tunnel that an `ssh -R` requests, and builds the sentences for the client's terminal.

The host and port of the request determine the tunnel. For `-R 80:…`, without a host, ssh sends the host "localhost". An
empty host (`-R :80:…`) and `*` are sent unchanged. This file does no I/O.
"""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from chalicelib import domains
from chalicelib.model.names.base_names import OPERATOR_NAMES
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
    PolicyUnknown,
    TooManyTunnels,
)

NO_PORT = "All ports that your credential permits are in use or reserved."
RESTART = "This gateway restarts: connect again."
RESTART_SOON = "This gateway restarts within a minute. It disconnects clients then, and they must connect again."
AWAY = "The gateway cannot reach its store just now: try again in a moment."

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
# the protocol of a tunnel with a host name, by the port in the client's `ssh -R`
_PROTOCOLS: Mapping[int, Literal["https", "tls"]] = {80: "https", 443: "tls"}
_LABELS_PORT = 80
_ANY = frozenset({"", "*", "localhost", "127.0.0.1", "::1", "0.0.0.0", "::"})  # noqa: S104 (how ssh names no host)

_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"  # the characters of random names
# Tunnel groups have the same limits for labels.
_MAX_LABELS = 50
_MAX_BYTES = 255  # maximum bytes of a label's name, and of its value


RefusalCode: TypeAlias = Literal[
    "invalid_request",
    "not_permitted",
    "forwarding_not_permitted",
    "name_of_edge",
    "name_not_reserved",
    "name_not_proved",
    "name_unreadable",
    "name_banned",
    "ip_policy_unknown",
    "name_taken",
    "no_free_port",
    "too_many_tunnels",
    "unavailable",
]
_TEMPORARY = frozenset({"name_taken", "no_free_port", "too_many_tunnels", "unavailable"})


class TunnelRefused(Exception):
    """The requested tunnel is refused. The message is a sentence for the client's terminal."""

    def __init__(self, sentence: str, code: RefusalCode = "invalid_request") -> None:
        super().__init__(sentence)
        self.code = code

    @property
    def is_final(self) -> bool:
        """Return whether the same request would be refused again."""
        return self.code not in _TEMPORARY


@dataclass(frozen=True)
class NamedTunnel:
    """A tunnel for https or TLS passthrough. `name` is the full host name, or "" for a random name."""

    name: str
    proto: Literal["https", "tls"] = "https"


@dataclass(frozen=True)
class PortTunnel:
    """A TCP tunnel on a port of the tunnel domain.

    `number` is 0 if the client requests a random port. `is_random` is true if the gateway has chosen the port.
    """

    number: int
    is_random: bool = False


@dataclass(frozen=True)
class LabelledTunnel:
    """A backend tunnel. Tunnel groups find it by its labels."""

    labels: tuple[tuple[str, str], ...]


RequestedTunnel: TypeAlias = NamedTunnel | LabelledTunnel | PortTunnel


def parse_request(host: str, port: int, settings: Settings) -> RequestedTunnel:
    """Return the tunnel that a client requests with `ssh -R`. Raises TunnelRefused."""
    domain = settings.tunnel_domain
    if port not in _PROTOCOLS:
        return _parse_port(host, port, settings)
    if "=" in host:
        if port != _LABELS_PORT:
            raise TunnelRefused(f"A tunnel with labels must request port {_LABELS_PORT}, whatever its protocol.")
        return LabelledTunnel(_parse_labels(host))
    name = "" if host in _ANY else _parse_own_domain(host, domain) or f"{_parse_name(host, domain)}.{domain}"
    return NamedTunnel(name, _PROTOCOLS[port])


@dataclass(frozen=True)
class Requester:
    """The client that requests a tunnel. `client` is the version of its SSH program."""

    grant: Grant
    gateway: str
    session: str
    address: str
    client: str


def build_opening(requested: RequestedTunnel, requester: Requester, settings: Settings) -> Opening:
    """Return the values with which the store opens a requested tunnel.

    If the tunnel has no name, choose a random one. Raises TunnelRefused if the client's grant does not permit the
    tunnel.
    """
    grant, address = requester.grant, requester.address
    opening = Opening(grant, requester.gateway, requester.session, address, address=address, client=requester.client)
    match requested:
        case LabelledTunnel():
            opening = opening.with_labels(requested.labels)
        case PortTunnel():
            name = settings.address(requested.number)
            opening = opening.with_name(name, f"tcp://{name}", "tcp")
            opening = replace(opening, is_random=requested.is_random)
        case NamedTunnel():
            name = requested.name or _choose_name(grant, settings.tunnel_domain)
            opening = opening.with_name(name, settings.url(name, requested.proto), requested.proto)
            opening = replace(opening, is_random=not requested.name)
    for target in opening.targets:
        if not grant.permits(target):
            raise TunnelRefused(
                f"The ACL of {grant.credential} does not permit {target}: it needs the rule bind:{target}.",
                "not_permitted",
            )
    return opening


def list_addresses(grant: Grant, settings: Settings) -> list[str]:
    """Return the addresses of all TCP ports that a grant permits. Raises TunnelRefused if it permits none."""
    permitted = [address for address in map(settings.address, settings.tcp_ports) if grant.permits(address)]
    if not permitted:
        sentence = f"The ACL of {grant.credential} permits no random port: request a port, -R 20022:…."
        raise TunnelRefused(sentence, "not_permitted")
    return permitted


def get_port(opening: Opening, port: int) -> int:
    """Return the port in a TCP tunnel's address. For other tunnels, return `port`."""
    return int(opening.name.rpartition(":")[2]) if opening.proto == "tcp" else port


def explain_error(error: Exception, name: str, limits: Limits) -> TunnelRefused:
    """Return the refusal to show to the client after an error of `Store.open`."""
    kind = "port" if ":" in name else "name"
    match error:
        case NameTaken():
            return TunnelRefused(f"{name} is in use already: choose another {kind}.", "name_taken")
        case NameOfEdge():
            advice = f"choose another {kind}, or remove it from the edge"
            return TunnelRefused(f"An edge of your account listens on {name}: {advice}.", "name_of_edge")
        case NameNotReserved():
            pronoun = "one" if kind == "port" else "it"  # an account cannot choose the port that it reserves
            why = f"{name} is not reserved: reserve {pronoun} first"
            return TunnelRefused(f"Your account can use only reserved {kind}s, and {why}.", "name_not_reserved")
        case NameNotProved():
            advice = "reserve it and set its TXT record first"
            return TunnelRefused(f"Your account has not proved that it owns {name}: {advice}.", "name_not_proved")
        case NameUnreadable():
            return TunnelRefused(f"The reservation of {name} is malformed: contact the operator.", "name_unreadable")
        case PolicyUnknown():
            sentence = "TUNNEL_IP_POLICIES names a policy that your account does not have: see GET /ip_policies."
            return TunnelRefused(sentence, "ip_policy_unknown")
        case NameBanned():
            return TunnelRefused(f"The operator has banned {name}: choose another {kind}.", "name_banned")
        case TooManyTunnels():
            limit = f"({limits.max_tunnels_per_account} for an account): close one or try again later"
            return TunnelRefused(f"The limit of tunnels is reached {limit}.", "too_many_tunnels")
    return TunnelRefused(AWAY, "unavailable")


def describe_tunnel(id: str, opening: Opening) -> str:
    """Return the sentence that announces an open tunnel."""
    if opening.labels:
        labels = ", ".join(f"{key}={value}" for key, value in opening.labels)
        return f"The backend tunnel {id} is online with {labels}: tunnel groups with these labels use it."
    return f"{opening.url} is online."


def describe_port(url: str, refusal: str) -> str:
    """Return the sentence that says whether the port of a TCP tunnel is open.

    The port is open if `refusal` is "".
    """
    if not refusal:
        return f"{url} is open now."
    return f"{url} is not open: {refusal}. The edge tries again every few seconds."


def advise_reservation(name: str) -> str:
    """Return the sentence that explains how to reserve a name or address."""
    advice = "To reserve a permanent address: POST /reserved_addrs {}"
    if ":" not in name:
        advice = f'To reserve it: POST /reserved_domains {{"domain": "{name}"}}'
    return f"{name} is not reserved: others can use it when this client disconnects. {advice}"


def _parse_port(host: str, port: int, settings: Settings) -> PortTunnel:
    ports, alternatives = settings.tcp_ports, "80 (https) or 443 (TLS passthrough)"
    if not ports:
        raise TunnelRefused(f"TCP ports are not served here: request port {alternatives}.")
    if port and port not in ports:
        port_range = f"{ports[0]} to {ports[-1]}"
        raise TunnelRefused(f"Port {port} is not served here: request a port from {port_range}, 0, or {alternatives}.")
    if host not in _ANY and host.lower().removesuffix(".") != settings.tunnel_domain:
        raise TunnelRefused(f"A TCP port belongs to the whole domain and has no name: write -R {port}:….")
    return PortTunnel(port)


def _parse_labels(host: str) -> tuple[tuple[str, str], ...]:
    pairs = [text.partition("=") for text in host.split(",")]
    if any(not key or not value or "*" in key + value for key, _, value in pairs):
        raise TunnelRefused(f"{_quote(host)} is not a label: write name=value, with commas between several.")
    if len(pairs) > _MAX_LABELS:
        raise TunnelRefused(f"A tunnel can have at most {_MAX_LABELS} labels, not {len(pairs)}.")
    if any(len(text.encode()) > _MAX_BYTES for key, _, value in pairs for text in (key, value)):
        raise TunnelRefused(f"The name and the value of a label can each have at most {_MAX_BYTES} bytes.")
    return tuple(sorted({key: value for key, _, value in pairs}.items()))


def _parse_own_domain(host: str, domain: str) -> str:
    """Return the normal form of a host name outside the tunnel domain.

    Return "" for any other text.
    """
    try:
        name = domains.normalize(host)
    except ValueError:
        return ""
    return "" if domains.is_below(name, domain) or name.startswith(domains.WILDCARD) else name


def _parse_name(host: str, domain: str) -> str:
    name = host.lower().removesuffix(".").removesuffix(f".{domain}")
    if not _NAME.fullmatch(name):
        raise TunnelRefused(
            f"{_quote(host)} is not a tunnel name: use letters, digits and hyphens, with or without .{domain}."
        )
    if name in OPERATOR_NAMES or name.startswith("xn--"):
        raise TunnelRefused(f"The name {name} is reserved for the operator: choose another.")
    return name


def _quote(text: str) -> str:
    """Return the first 80 characters of a text, with each control character replaced by "?"."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:80]


def _choose_name(grant: Grant, domain: str) -> str:
    label = "".join(secrets.choice(_ALPHABET) for _ in range(10))
    name = f"{label}.{domain}"
    if not grant.permits(name):
        sentence = f"The ACL of {grant.credential} permits no random name: request a name, -R name:80:…."
        raise TunnelRefused(sentence, "not_permitted")
    return name
