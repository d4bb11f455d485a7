"""Tunnels that are online: reading them, and their labels."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from chalicelib.model.audit import trail
from chalicelib.model.base import records
from chalicelib.model.base.records import Stored
from chalicelib.model.changes import Change
from chalicelib.model.tunnels import ends, tunnels
from chalicelib.model.tunnels.tunnels import AgentTunnel, BackendTunnel, Proto, ServedTunnel
from chalicelib.storage.records import decoding, table
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.writes import Overtaken


@dataclass(frozen=True, kw_only=True)
class _GatewayRecord(Stored):
    """The record of a tunnel in the list of its gateway."""

    account: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    proto: Proto = "https"
    proxy_protocol: bool = False


def tunnels_of_gateway(gateway: str) -> list[ServedTunnel]:
    """Return the tunnels of a gateway, newest first. Some leases may have ended. Raises aws.Unavailable."""
    found = records.decoded(_GatewayRecord, table.every(ends.gateway_scope(gateway)))
    return [_build_served(item, stored.account, gateway, stored.name, stored) for item, stored in found]


def read(account: str, id: str) -> ServedTunnel | None:
    """Return an online tunnel as its gateway serves it, or None. Raises aws.Unavailable."""
    item = table.find(tunnels.scope(account), id)
    return decode(item) if item else None


def read_with_credential(account: str, id: str) -> tuple[ServedTunnel, str] | None:
    """Return an online tunnel and the credential that opened it, or None. Raises aws.Unavailable."""
    item = table.find(tunnels.scope(account), id)
    tunnel = decode(item) if item else None
    return (tunnel, tunnels.decode(item).credential) if item and tunnel else None


def decode(item: Item) -> ServedTunnel | None:
    """Return the tunnel of an item as its gateway serves it, or None if it is malformed."""
    try:
        stored = tunnels.decode(item)
    except MalformedRecord as malformed:
        decoding.report(item.scope, item.id, malformed)
        return None
    return _build_served(item, item.account, stored.gateway, ends.host_name(item), stored)


def remove_expired(account: str) -> list[Item]:
    """Remove tunnels of an account after the end of their lease. Return the tunnels that are online.

    Each removal has one audit event. Raises aws.Unavailable.
    """
    found = list(table.every(tunnels.scope(account)))
    for lapsed in (item for item in found if not item.is_live):
        with suppress(Overtaken):  # another process has removed it
            Change(trail.EDGE).end(lapsed).commit()
    return [item for item in found if item.is_live]


def list_online(account: str) -> list[Item]:
    """Return the online tunnels of an account, newest first, without malformed ones. Raises aws.Unavailable."""
    return [item for item in table.newest(tunnels.scope(account)) if _is_readable(item)]


def has_all_labels(tunnel: Item, labels: Mapping[str, Any]) -> bool:
    """Return whether a tunnel has all the labels, False if there are none. Agent tunnels have no labels."""
    return are_labels_included(tunnel.body.get("labels", {}), labels)


def are_labels_included(tunnel_labels: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Return whether a tunnel has all required labels, False if none are required."""
    return bool(labels) and labels.items() <= tunnel_labels.items()


def _build_served(
    item: Item, account: str, gateway: str, name: str, stored: "AgentTunnel | BackendTunnel | _GatewayRecord"
) -> ServedTunnel:
    """Return the tunnel of its own record or of the record of its gateway."""
    until = ends.lease_end(item)
    if isinstance(stored, BackendTunnel):
        return ServedTunnel(account, item.id, gateway, name, until, stored.labels)
    labels = {} if isinstance(stored, AgentTunnel) else stored.labels
    return ServedTunnel(account, item.id, gateway, name, until, labels, stored.proto, stored.proxy_protocol)


def _is_readable(item: Item) -> bool:
    try:
        tunnels.decode(item)
    except MalformedRecord as malformed:
        decoding.report(item.scope, item.id, malformed)
        return False
    return True
