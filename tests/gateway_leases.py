"""Leases of gateways at a chosen time, as their records have them."""

from chalicelib import clock
from chalicelib.model.tunnels.gateways import GATEWAYS
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write


def set_lease(gateway: str, seconds: int) -> None:
    """Let the lease of a gateway end in some seconds, or some seconds ago if negative."""
    lease = {"lease": clock.seconds() + seconds}
    dynamodb.do(Write.update(GATEWAYS, gateway, Condition("attribute_exists(#id)"), sets=lease))
