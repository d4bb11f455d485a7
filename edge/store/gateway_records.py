"""Reads and writes of gateways that combine several records."""

from chalicelib.model.tunnels import gateways, online_tunnels
from edge.store.records import Successor


def find_successor(account: str, id: str) -> Successor | None:
    """Return the account's tunnel with an id, and its gateway. Return None if the tunnel is not online."""
    if (online := online_tunnels.read_with_credential(account, id)) is None:
        return None
    tunnel, credential = online
    gateway = gateways.read(tunnel.gateway) if tunnel.gateway else None
    return Successor(tunnel, credential, gateway) if gateway else None


def withdraw_gateway(gateway: str) -> None:
    """Mark the gateway of this process as ended. Its record stays until its last tunnel has ended."""
    gateways.leave(gateway)
    if not online_tunnels.read_tunnels_of_gateway(gateway):
        gateways.remove(gateway)
