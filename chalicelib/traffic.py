"""The operator's work on what is served: tunnels, names, networks, usage. No endpoint offers it."""

import re
from collections.abc import Mapping
from typing import Any

from chalicelib import clock, ids, operations
from chalicelib.model import bans, blocks, histories, kinds, name_bans, names, online_tunnels, tunnels
from chalicelib.model import usage as used
from chalicelib.model.audit import OPERATOR
from chalicelib.model.bans import TooManyPatterns
from chalicelib.model.edges import find_by_name, list_hostports
from chalicelib.model.histories import FormerEdge, TunnelRecord
from chalicelib.model.tunnels import AgentTunnel, BackendTunnel, Traffic
from chalicelib.operations import CommandError
from chalicelib.schema.fields import DOMAIN
from chalicelib.storage.items import Item

DEMO_LEASE = 15  # seconds
_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")


def open_demo_tunnel(account_id: str, labels: Mapping[str, str]) -> str:
    """Open a demonstration tunnel for DEMO_LEASE seconds, one for backends if it is to have labels; return its id.

    Raises Unknown.
    """
    operations.check_account(account_id)
    return tunnels.open_tunnel(account_id, _demo_tunnel(labels), lease=DEMO_LEASE, by=OPERATOR)


def label(text: str) -> tuple[str, str]:
    """Return the name and value of a label as the operator writes it, app=web. Raises ValueError."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(text)
    return name, value


def _demo_tunnel(labels: Mapping[str, str]) -> AgentTunnel | BackendTunnel:
    common: dict[str, Any] = {
        "tunnel_session": ids.new("ts"),
        "region": "local",
        "forwards_to": "http://localhost:80",
        "metadata": "A demonstration",
        "metadata_0": "A demonstration, as version 0 shows it",
    }
    if labels:
        return BackendTunnel(**common, labels=labels)
    name = ids.unprefixed(ids.new("ep")).lower()
    url = f"https://{name}.tunnels.example"
    return AgentTunnel(**common, endpoint=ids.new("ep"), proto="https", public_url=url)


def list_tunnels() -> list[tuple[str, Item]]:
    """Return all tunnels that are online, with their accounts, the oldest account first; end those that have lapsed."""
    return [
        (account.id, tunnel)
        for account in operations.list_accounts()
        for tunnel in online_tunnels.remove_expired(account.id)
    ]


def who_had(name: str, moment: str) -> TunnelRecord | FormerEdge:
    """Return the tunnel that had a name or port at a time (RFC 3339), "" for now; else the edge that had it.

    Raises CommandError where there is neither.
    """
    try:
        second = int(clock.parse(moment).timestamp()) if moment else clock.seconds()
    except ValueError as error:
        raise CommandError(f"--at {error}.") from None
    host = _host(name)
    tunnel = histories.find_tunnel(host, second)
    if tunnel and _had(tunnel, second):
        return tunnel
    edges = _edges_at(host)
    if having := [it for it in edges if clock.parse(it.created_at).timestamp() <= second and _had(it, second)]:
        return having[-1]
    before = [it for it in (tunnel, *edges) if it and not _had(it, second)]
    if not before:
        raise CommandError(f"Nobody had {name} then or before.")
    last = max(before, key=lambda it: it.ended_at)
    id = last.tunnel if isinstance(last, TunnelRecord) else last.edge
    raise CommandError(f"Nobody had {name} then; the last before was {id}, until {last.ended_at}.")


def _had(found: TunnelRecord | FormerEdge, second: int) -> bool:
    """Tell whether a name had not been given up at a Unix second."""
    return not found.ended_at or clock.parse(found.ended_at).timestamp() >= second


def _edges_at(name: str) -> list[FormerEdge]:
    """Return the edge that has a name, or port, and those that gave it up, the latest first."""
    left = [it for hostport in list_hostports(name) for it in histories.read_former_edges(hostport)]
    edge = find_by_name(name, names.domain_in_use())
    now = [FormerEdge(edge.account, edge.id, edge.body["created_at"])] if edge else []
    return [*now, *sorted(left, key=lambda it: it.ended_at, reverse=True)]


def usage(account: str, month: str) -> Mapping[str, Traffic]:
    """Return by day what went through an account's tunnels in a month, "" for the present. Raises CommandError."""
    if month and not _MONTH.fullmatch(month):
        raise CommandError(f"--month {month} is no month: write it as 2026-11.")
    return used.read_days(account, month or clock.rfc3339(clock.now())[:7])


def end_tunnel(id: str) -> None:
    """Take a tunnel offline, whoever's it is; its name is free then. Raises CommandError."""
    if not ids.is_id(id, kinds.TUNNELS.prefix):
        raise CommandError(f"{id} is not the id of a tunnel (tn_…).")
    if not any(tunnels.close_tunnel(account.id, id, by=OPERATOR) for account in operations.list_accounts()):
        raise CommandError(f"No tunnel {id} is online.")


def block(network: str) -> str:
    """Block a network or an address, at gateways and edge hosts; return its normal form. Raises CommandError."""
    found = _network(network)
    blocks.block(found)
    return found


def unblock(network: str) -> None:
    """Lift a block. Raises CommandError where there is none."""
    if not blocks.unblock(_network(network)):
        raise CommandError(f"{network} is not blocked.")


def _network(text: str) -> str:
    try:
        return blocks.normalize(text)
    except ValueError as error:
        raise CommandError(f"{text} {error}.") from None


def ban_name(name: str) -> None:
    """Ban a host name, a port, or a pattern with stars: no tunnel can have it, and the one that has it is closed.

    Raises CommandError.
    """
    try:
        bans.ban(bans.normalize(name)) if "*" in name else name_bans.ban_name(_host(name))
    except ValueError as error:
        raise CommandError(f"{name} {error}.") from None
    except TooManyPatterns:
        raise CommandError(f"{bans.MAX_PATTERNS} patterns are banned already, which is the most.") from None


def allow_name(name: str) -> None:
    """Lift the ban of a host name, port or pattern. Raises CommandError if it is not banned."""
    if not (bans.allow(name.lower()) if "*" in name else name_bans.lift_name_ban(_host(name))):
        raise CommandError(f"The name {name} is not banned.")


def forget_settings(*, is_forced: bool) -> str:
    """Let the API and the edge start with another TUNNEL_DOMAIN or TCP_PORTS; return the former ones.

    Raises CommandError, while names exist too unless it `is_forced`.
    """
    found = [] if is_forced else list(names.names_in_use())
    if found:
        raise CommandError(
            f"Nothing was changed: {len(found):,} names exist, for example {min(found)}. Names of another "
            "TUNNEL_DOMAIN are not served, nor are ports outside of TCP_PORTS. Delete what has them and wait for the "
            "end of their cooldowns, or, if they stay served or need not be, repeat this with --force."
        )
    if not (former := names.forget_settings()):
        raise CommandError("This table has no TUNNEL_DOMAIN yet: nothing was changed.")
    return former


def _host(name: str) -> str:
    """Return a host name, or the address of a port, as tunnels have it; of a URL too, as complaints have it."""
    url = re.fullmatch(r"https?://([^/?#:]+).*|(?:tls|tcp)://([^/?#]+).*", name.lower(), re.DOTALL)
    host = url[1] or url[2] if url else name.lower()
    if not re.fullmatch(rf"{DOMAIN}(:[1-9][0-9]{{0,4}})?", host):
        raise CommandError(f"{name} is not a whole host name, for example demo.tunnels.localhost.")
    return str(host)
