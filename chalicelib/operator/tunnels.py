"""Commands about online tunnels, the history of names, an account's usage, and demonstration tunnels."""

import json
import re
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from chalicelib import clock, ids
from chalicelib.model.audit.trail import OPERATOR
from chalicelib.model.base import kinds
from chalicelib.model.edges.edges import find_by_name, list_hostports
from chalicelib.model.names import base_names, histories
from chalicelib.model.names.histories import FormerEdge, TunnelRecord
from chalicelib.model.tunnels import online_tunnels, tunnels
from chalicelib.model.tunnels import usage as usages
from chalicelib.model.tunnels.tunnels import AgentTunnel, BackendTunnel, Traffic
from chalicelib.operator.accounts import check_account, list_accounts
from chalicelib.operator.command_line import (
    CommandError,
    OperatorCommand,
    OperatorGroup,
    ParsedText,
    account_argument,
    json_option,
    reason_option,
)
from chalicelib.operator.names import parse_host
from chalicelib.storage.records.items import Item

DEMO_LEASE = 15  # the lifetime of a demonstration tunnel, in seconds
_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")

group = OperatorGroup("tunnels", help="The tunnels that are online.")


def list_tunnels() -> list[tuple[str, Item]]:
    """Return all online tunnels with the ids of their accounts, the oldest account first.

    End all tunnels that are offline because their lease is over or their gateway has ended.
    """
    return [
        (account.id, tunnel) for account in list_accounts() for tunnel in online_tunnels.end_all_offline(account.id)
    ]


def end_tunnel(id: str) -> None:
    """End a tunnel of any account, so that its name is free. Raises CommandError."""
    if not ids.is_id(id, kinds.TUNNELS.prefix):
        raise CommandError(f"{id} is not the id of a tunnel (tn_…).")
    if not any(tunnels.close_tunnel(account.id, id, by=OPERATOR) for account in list_accounts()):
        raise CommandError(f"No tunnel {id} is online.")


def who_had(name: str, moment: str) -> TunnelRecord | FormerEdge:
    """Return the tunnel or edge that had a name or port at the given time. Raises CommandError if none had it.

    `moment` is the time in RFC 3339, or "" for the current time.
    """
    try:
        second = int(clock.parse(moment).timestamp()) if moment else clock.seconds()
    except ValueError as error:
        raise CommandError(f"--at {error}.") from None
    host = parse_host(name)
    tunnel = histories.find_tunnel(host, second)
    if tunnel and _lasted_until(tunnel, second):
        return tunnel
    edges = _list_edges(host)
    if matches := [edge for edge in edges if _began_before(edge, second) and _lasted_until(edge, second)]:
        return matches[-1]
    earlier = [candidate for candidate in (tunnel, *edges) if candidate and not _lasted_until(candidate, second)]
    if not earlier:
        raise CommandError(f"No tunnel or edge had {name} at that time or before.")
    last = max(earlier, key=lambda candidate: candidate.ended_at)
    id = last.tunnel if isinstance(last, TunnelRecord) else last.edge
    raise CommandError(f"No tunnel or edge had {name} at that time. {id} had the name before, until {last.ended_at}.")


def read_usage(account: str, month: str) -> Mapping[str, Traffic]:
    """Return an account's usage by day. `month` is for example 2026-11, or "" for this month. Raises CommandError."""
    if month and not _MONTH.fullmatch(month):
        raise CommandError(f"--month {month} is not a month: write it like 2026-11.")
    return usages.read_days(account, month or clock.rfc3339(clock.now())[:7])


def open_demo_tunnel(account_id: str, labels: Mapping[str, str]) -> str:
    """Open a demonstration tunnel for DEMO_LEASE seconds. Return its id.

    With labels, the tunnel is a backend tunnel. Raises UnknownId.
    """
    check_account(account_id)
    return tunnels.open_tunnel(account_id, _build_demo_tunnel(labels), lease=DEMO_LEASE, by=OPERATOR)


def parse_label(text: str) -> tuple[str, str]:
    """Return the name and value of a label such as app=web. Raises ValueError."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(text)
    return name, value


@group.command("list", help="List the online tunnels with their accounts and credentials.")
def _list() -> None:
    for account, item in list_tunnels():
        tunnel = tunnels.decode(item)
        labels = tunnel.labels.items() if isinstance(tunnel, BackendTunnel) else ()
        description = ",".join(f"{key}={value}" for key, value in labels) or item.body.get("public_url")
        print(account, item.id, tunnel.started_at, tunnel.credential or "-", description)


@group.command("end", help="End a tunnel. Its client can connect again.")
@click.argument("id", help="The tunnel's id (tn_…).")
@reason_option
def _end(id: str) -> None:
    end_tunnel(id)


@group.command("who", help="Show which tunnel had a name at a time, with its account, credential and address.")
@click.argument("name", help="A whole host name (demo.tunnels.localhost), a port (tunnels.localhost:20022) or a URL.")
@click.option("--at", default="", metavar="TIME", help="The time (RFC 3339, default: now).")
@json_option
def _print_who(name: str, at: str, as_json: bool) -> None:
    fields = asdict(who_had(name, at))
    if as_json:
        print(json.dumps(fields))
        return
    for field, value in fields.items():
        print(field, value or "-")


@group.command("demo", help="Keep a demonstration tunnel online until Ctrl-C.")
@account_argument
@click.option(
    "--label",
    "labels",
    multiple=True,
    type=ParsedText("label", parse_label, "app=web"),
    metavar="NAME=VALUE",
    help="A label of the tunnel, for tunnel groups; can be repeated.",
)
def _run_demo(account: str, labels: Sequence[tuple[str, str]]) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tunnel = open_demo_tunnel(account, dict(labels))
    try:
        print(f"tunnel {tunnel} is online until Ctrl-C", flush=True)
        while tunnels.renew_lease(account, tunnel, lease=DEMO_LEASE):
            time.sleep(DEMO_LEASE / 3)
    except KeyboardInterrupt:
        tunnels.close_tunnel(account, tunnel, by=OPERATOR)


@click.command("usage", cls=OperatorCommand, help="Show an account's traffic through tunnels in a month, by day.")
@account_argument
@click.option("--month", default="", metavar="YYYY-MM", help="The month (UTC, default: this one).")
@json_option
def print_usage(account: str, month: str, as_json: bool) -> None:
    """Run the command `usage`."""
    days = read_usage(account, month)
    if as_json:
        for day, usage in days.items():
            print(json.dumps({"day": day, **asdict(usage)}))
        return
    for day, usage in [*days.items(), ("total", sum(days.values(), start=Traffic()))]:
        print(day, f"bytes_in={usage.bytes_in} bytes_out={usage.bytes_out} requests={usage.requests}")


def _began_before(edge: FormerEdge, second: int) -> bool:
    return clock.parse(edge.created_at).timestamp() <= second


def _lasted_until(owner: TunnelRecord | FormerEdge, second: int) -> bool:
    """Return whether a tunnel or edge lasted until a Unix second or longer."""
    return not owner.ended_at or clock.parse(owner.ended_at).timestamp() >= second


def _list_edges(name: str) -> list[FormerEdge]:
    """Return the current edge with a name or port, if any, and former edges. The latest edge is first."""
    former = [edge for hostport in list_hostports(name) for edge in histories.read_former_edges(hostport)]
    edge = find_by_name(name, base_names.domain_in_use())
    present = [FormerEdge(edge.account, edge.id, edge.body["created_at"])] if edge else []
    return [*present, *sorted(former, key=lambda former_edge: former_edge.ended_at, reverse=True)]


def _build_demo_tunnel(labels: Mapping[str, str]) -> AgentTunnel | BackendTunnel:
    common: dict[str, Any] = {
        "tunnel_session": ids.new("ts"),
        "region": "local",
        "forwards_to": "http://localhost:80",
        "metadata": "A demonstration",
        "metadata_0": "A demonstration, as version 0 shows it",
    }
    if labels:
        return BackendTunnel(**common, labels=labels)
    name = ids.strip_prefix(ids.new("ep")).lower()
    url = f"https://{name}.tunnels.example"
    return AgentTunnel(**common, endpoint=ids.new("ep"), proto="https", public_url=url)
