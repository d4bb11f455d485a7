"""The end of a tunnel: what its event tells beside the tunnel, and what is written with it, whoever ends it."""

from chalicelib import ids
from chalicelib.model import histories, names
from chalicelib.model.details import Details
from chalicelib.model.kinds import EDGE
from chalicelib.storage import items
from chalicelib.storage.dynamodb import Write
from chalicelib.storage.items import Item


def lease_end(item: Item) -> int:
    """Return the Unix second at which the lease of a tunnel ends, of an item of an earlier edition too."""
    return item.lease or item.expires or 0


def host_name(item: Item) -> str:
    """Return the host name of a tunnel, "" where it has none."""
    return next((key.value for key in item.unique_keys if key.kind == names.KIND), "")


def gateway_scope(gateway: str) -> str:
    """Return the storage scope of what a gateway carries."""
    return items.scope(EDGE, f"/gateways/{gateway}/tunnels")


def describe_duration(item: Item, end: int) -> Details:
    """Return for how long a tunnel was online that ends at a Unix second."""
    return {"seconds": str(max(end - int(ids.created_at(item.id).timestamp()), 0))}


def record_end(item: Item, end: int) -> list[Write]:
    """Return the write that records, under its name, that a tunnel ended at a Unix second; none without a name."""
    return histories.record_tunnel(host_name(item), item.account, item.id, item.body, ended=end)


def remove_from_gateway(item: Item) -> list[Write]:
    """Return the write that removes a tunnel from those its gateway carries, none where it has no gateway."""
    gateway = item.body.get("gateway")
    return [Write.delete(gateway_scope(gateway), item.id)] if gateway and isinstance(gateway, str) else []
