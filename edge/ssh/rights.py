"""Which tunnels a change in the records may end: those whose rights, or whose own record, it touches. Pure."""

from chalicelib.model import kinds
from chalicelib.model.accounts import SCOPE
from chalicelib.model.tunnels import ServedTunnel
from chalicelib.storage.change_log import Place

_APART = {kinds.TLS_CERTIFICATES.path}  # no right rests on it


def concerns(place: Place, tunnel: ServedTunnel) -> bool:
    """Tell whether a change at a place may end a tunnel: of its record, its account, and what lets its client in."""
    if place.scope == SCOPE:
        return place.id == tunnel.account
    account, _, path = place.scope.partition("#")
    if account != tunnel.account or path in _APART:
        return False
    return path != kinds.TUNNELS.path or place.id == tunnel.id
