"""Gateways that come up or go down, and the end of what a lost gateway leaves behind.

A gateway that dies writes nothing: its lease ends. So the change log does not name it.
"""

from collections.abc import Iterable, Mapping

from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import GATEWAYS
from chalicelib.storage.records.change_log import Place
from edge.store.records import Store

PERIOD = 20.0  # seconds between checks: a third of a lease


class GatewayWatch:
    """The gateways that are up, as one edge host knows them. Its methods block."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._up: Mapping[str, Gateway] = {}

    def check(self) -> frozenset[Place]:
        """Return the places of gateways that went up or down since the last check. Raises Unavailable.

        A gateway with an ended lease is removed once all its tunnels have ended, each with an audit event.
        """
        every = self._store.list_gateways()
        before, self._up = self._up, {gateway.id: gateway for gateway, is_up in every if is_up}
        self._sweep(gateway.id for gateway, is_up in every if not is_up)
        changed = {id for id in before.keys() | self._up.keys() if before.get(id) != self._up.get(id)}
        return frozenset(Place(GATEWAYS, id) for id in changed)

    def _sweep(self, down: Iterable[str]) -> None:
        """End the lapsed tunnels of gateways that are down. Other tunnels may have just been opened."""
        for gateway in down:
            tunnels = self._store.list_tunnels(gateway)
            for account in sorted({it.account for it in tunnels if not it.is_live}):
                self._store.end_lapsed_tunnels(account)
            if not any(it.is_live for it in tunnels):
                self._store.withdraw_gateway(gateway)
