"""Finds the tunnels that a change in the records can end. Pure."""

from chalicelib.model.accounts.accounts import SCOPE
from chalicelib.model.base import kinds
from chalicelib.model.tunnels.tunnels import ServedTunnel
from chalicelib.storage.records.change_log import Place

_UNRELATED = {kinds.TLS_CERTIFICATES.path}  # kinds on which the rights to a tunnel never depend


def concerns(key: Place, tunnel: ServedTunnel) -> bool:
    """Return whether a change of a record can end a tunnel. `key` is the address of the record.

    Such records are the tunnel's, its account's, and all records on which the rights to the tunnel may depend.
    """
    if key.scope == SCOPE:
        return key.id == tunnel.account
    account, _, path = key.scope.partition("#")
    if account != tunnel.account or path in _UNRELATED:
        return False
    return path != kinds.TUNNELS.path or key.id == tunnel.id
