"""Tunnels that are online: reading them, matching their labels, and ending tunnels that are offline.

A separate lease is a lease in a tunnel's own record. Other tunnels depend on the lease of their gateway.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chalicelib.model.audit import trail
from chalicelib.model.base import records
from chalicelib.model.base.records import Stored
from chalicelib.model.changes import Change
from chalicelib.model.tunnels import ends, gateways, tunnels
from chalicelib.model.tunnels.gateways import GATEWAYS, Gateway
from chalicelib.model.tunnels.tunnels import AgentTunnel, BackendTunnel, Proto, ServedTunnel
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import decoding, direct_writes, table
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.writes import Overtaken


@dataclass(frozen=True, kw_only=True)
class _GatewayRecord(Stored):
    """The record of a tunnel in the list of its gateway's tunnels."""

    account: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    proto: Proto = "https"
    proxy_protocol: bool = False
    ip_policies: list[str] = field(default_factory=list)


def read_tunnels_of_gateway(gateway: str) -> list[ServedTunnel]:
    """Return the tunnels in the list of a gateway, newest first. Some may be offline. Raises aws.Unavailable."""
    entries = records.decode_each(_GatewayRecord, table.read_all(ends.gateway_scope(gateway)))
    return [_build_served(item, stored.account, gateway, stored.name, stored) for item, stored in entries]


def find_missing(served: Sequence[ServedTunnel]) -> frozenset[str]:
    """Return the ids of tunnels without a record. Raises aws.Unavailable."""
    item_keys = {tunnel.id: (tunnels.scope(tunnel.account), tunnel.id) for tunnel in served}
    stored_records = table.read_records(item_keys.values())
    return frozenset(id for id, item_key in item_keys.items() if item_key not in stored_records)


def read(account: str, id: str) -> ServedTunnel | None:
    """Return an online tunnel as its gateway serves it, or None. Raises aws.Unavailable."""
    item = table.find(tunnels.scope(account), id)
    online = keep_online([item] if item else [])
    return decode(online[0]) if online else None


def read_with_credential(account: str, id: str) -> tuple[ServedTunnel, str] | None:
    """Return a tunnel and the credential that opened it, or None. The tunnel can be offline. Raises aws.Unavailable."""
    item = table.find(tunnels.scope(account), id)
    tunnel = decode(item) if item else None
    return (tunnel, tunnels.decode(item).credential) if item and tunnel else None


def decode(item: Item) -> ServedTunnel | None:
    """Return the tunnel of an item as its gateway serves it. Return None if it is malformed."""
    try:
        stored = tunnels.decode(item)
    except MalformedRecord as malformed:
        decoding.report(item.scope, item.id, malformed)
        return None
    return _build_served(item, item.account, stored.gateway, ends.host_name(item), stored)


def keep_online(tunnel_items: Sequence[Item]) -> list[Item]:
    """Return the items of the tunnels that are online, in the given order.

    A tunnel with a separate lease is online while this lease runs. Any other tunnel is online while its gateway is
    live. One call to the table reads up to 100 gateways. Raises aws.Unavailable.
    """
    used = {tunnels.gateway_of(item) for item in tunnel_items if not item.has_own_lease} - {""}
    live = {id for id, gateway in gateways.read_each(used).items() if gateway.is_live} if used else set()
    return [item for item in tunnel_items if (item.is_live if item.has_own_lease else tunnels.gateway_of(item) in live)]


def exceed(account: str, limit: int) -> bool:
    """Return whether an account has more than `limit` tunnels online. Raises aws.Unavailable."""
    tunnel_items = table.list_newest(tunnels.scope(account))
    return len(tunnel_items) > limit and len(keep_online(tunnel_items)) > limit


def end_lapsed(account: str) -> list[Item]:
    """End the tunnels of an account with a separate lease that is over. Return all other tunnels.

    Some of the returned tunnels can be offline, because their gateway has ended. Each ended tunnel gets one audit
    event. Raises aws.Unavailable.
    """
    tunnel_items = list(table.read_all(tunnels.scope(account)))
    for lapsed in (item for item in tunnel_items if not item.is_live):
        _end(lapsed, None)
    return [item for item in tunnel_items if item.is_live]


def end_all_offline(account: str) -> list[Item]:
    """End the tunnels of an account that are offline, because their lease or gateway has ended. Return the online
    tunnels.

    Each end has one audit event. Raises aws.Unavailable.
    """
    tunnel_items = end_lapsed(account)
    leases = table.read_records((GATEWAYS, gateway) for item in tunnel_items if (gateway := tunnels.gateway_of(item)))
    for item in (item for item in tunnel_items if not item.has_own_lease):
        lease = leases.get((GATEWAYS, tunnels.gateway_of(item)))
        if gateways.end_lease(lease) == []:
            _end(item, lease)
    return keep_online(tunnel_items)


def end_of_gateway(tunnel: ServedTunnel, gateway: Gateway) -> bool:
    """End a tunnel of an ended gateway, with one audit event. Return False if it was not ended by this call.

    A tunnel with a separate lease is ended only if that lease is over. Raises aws.Unavailable.
    """
    item = table.find_stored(tunnels.scope(tunnel.account), tunnel.id)
    if item and not (item.has_own_lease and item.is_live):
        return _end(item, {"lease": gateway.lease})
    if item is None:
        direct_writes.do_if(Write.delete(ends.gateway_scope(gateway.id), tunnel.id))
    return False


def list_stored(account: str) -> list[Item]:
    """Return the tunnels of an account, newest first, without malformed ones.

    Tunnels of ended gateways are included. Raises aws.Unavailable.
    """
    return [item for item in table.list_newest(tunnels.scope(account)) if _is_readable(item)]


def list_online(account: str) -> list[Item]:
    """Return the online tunnels of an account, newest first, without malformed ones. Raises aws.Unavailable."""
    return keep_online(list_stored(account))


def has_all_labels(tunnel: Item, labels: Mapping[str, Any]) -> bool:
    """Return whether the tunnel of an item has all `labels`.

    Return False if `labels` is empty, and for agent tunnels.
    """
    return are_labels_included(tunnel.body.get("labels", {}), labels)


def are_labels_included(tunnel_labels: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Return whether `tunnel_labels` contain all `labels`. Return False if `labels` is empty."""
    return bool(labels) and labels.items() <= tunnel_labels.items()


def _build_served(
    item: Item, account: str, gateway: str, name: str, stored: "AgentTunnel | BackendTunnel | _GatewayRecord"
) -> ServedTunnel:
    """Return the tunnel that a record describes, as its gateway serves it.

    `stored` is the tunnel's own record, or the record of the tunnel in the list of its gateway.
    """
    until = ends.lease_end(item)
    if isinstance(stored, BackendTunnel):
        return ServedTunnel(account, item.id, gateway, name, until, stored.labels)
    labels = {} if isinstance(stored, AgentTunnel) else stored.labels
    settings = stored.proto, stored.proxy_protocol, tuple(stored.ip_policies)
    return ServedTunnel(account, item.id, gateway, name, until, labels, *settings)


def _end(item: Item, lease: Mapping[str, Any] | None) -> bool:
    """End a tunnel, with an audit event. Return False if another process has ended the tunnel.

    `lease` is the record of the tunnel's gateway, or None for a tunnel with a separate lease.
    """
    try:
        Change(trail.EDGE).end(item, lease).commit()
    except Overtaken:
        return False
    return True


def _is_readable(item: Item) -> bool:
    try:
        tunnels.decode(item)
    except MalformedRecord as malformed:
        decoding.report(item.scope, item.id, malformed)
        return False
    return True
