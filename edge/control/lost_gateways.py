"""Ends the tunnels that a lost gateway leaves behind.

A gateway that dies writes nothing: its lease ends, and those of its tunnels. The first host that notices ends the
tunnels.
"""

from edge.store.records import Store

PERIOD = 20.0  # seconds between checks: a third of a lease


def end_lost_gateways(store: Store) -> None:
    """End the lapsed tunnels of gateways that are down, each with an audit event. Blocks, and raises Unavailable.

    A gateway is removed once all its tunnels have ended. The tunnels of other gateways are not read.
    """
    for gateway in store.list_gateways():
        if gateway.is_live:
            continue
        store.fence_gateway(gateway.id)
        tunnels = store.list_tunnels(gateway.id)
        for account in sorted({it.account for it in tunnels if not it.is_live}):
            store.end_lapsed_tunnels(account)
        if not any(it.is_live for it in tunnels):
            store.remove_gateway(gateway.id)
