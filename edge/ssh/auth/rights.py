"""Finds the tunnels that a change in the records can end. Pure."""

from chalicelib.model.accounts.accounts import SCOPE
from chalicelib.model.base import kinds
from chalicelib.model.tunnels.tunnels import ServedTunnel
from chalicelib.storage.records.change_log import Place

_UNRELATED = {kinds.TLS_CERTIFICATES.path}  # kinds that no tunnel's rights depend on


def concerns(key: Place, tunnel: ServedTunnel) -> bool:
    """Return whether a change of the record with this key can end a tunnel.

    This applies to the record of the tunnel, to that of its account, and to records that its rights may depend on.
    """
    if key.scope == SCOPE:
        return key.id == tunnel.account
    account, _, path = key.scope.partition("#")
    if account != tunnel.account or path in _UNRELATED:
        return False
    return path != kinds.TUNNELS.path or key.id == tunnel.id
