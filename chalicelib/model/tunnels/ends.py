"""The end of a tunnel: the details of its audit event, and the writes to other records."""

from collections.abc import Mapping
from typing import Any

from chalicelib import ids
from chalicelib.model.audit.details import Details
from chalicelib.model.base.kinds import EDGE
from chalicelib.model.names import base_names, histories, special_names
from chalicelib.model.names.special_names import SpecialOwner
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import items
from chalicelib.storage.records.items import Item


def lease_end(item: Item, lease: Mapping[str, Any] | None = None) -> int:
    """Return the Unix second at which the lease of a tunnel or gateway ends. Return 0 if it is unknown.

    `lease` is the record of the tunnel's gateway. It is required if the tunnel's own record has no lease. In records
    that version 2.0.0 wrote, the expiry of a tunnel's record is the end of the tunnel's lease.
    """
    end = item.lease or item.expires or (lease or {}).get("lease")
    return end if isinstance(end, int) else 0


def host_name(item: Item) -> str:
    """Return the host name of a tunnel, or ""."""
    return next((key.value for key in item.unique_keys if key.kind == base_names.KIND), "")


def gateway_scope(gateway: str) -> str:
    """Return the partition key of the list of a gateway's tunnels."""
    return items.scope(EDGE, f"/gateways/{gateway}/tunnels")


def describe_duration(item: Item, end: int) -> Details:
    """Return the event details with a tunnel's seconds online. `end` is a Unix second."""
    return {"seconds": str(max(end - int(ids.created_at(item.id).timestamp()), 0))}


def record_end(item: Item, end: int) -> list[Write]:
    """Return the write that adds the end of a tunnel to the history of its name."""
    return histories.record_tunnel(host_name(item), item.account, item.id, item.body, ended=end)


def unlist(item: Item) -> list[Write]:
    """Return the write that removes a tunnel from the list of special names."""
    proto = item.body.get("proto")
    return (
        []
        if proto in ("http", "https") or "labels" in item.body
        else [special_names.remove(SpecialOwner(item.account, item.id))]
    )


def remove_from_gateway(item: Item) -> list[Write]:
    """Return the write that removes a tunnel from the list of its gateway's tunnels."""
    gateway = item.body.get("gateway")
    return [Write.delete(gateway_scope(gateway), item.id)] if gateway and isinstance(gateway, str) else []
