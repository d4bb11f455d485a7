"""Decides which online tunnels must be checked after a change of a record. This file does no I/O.

A change can end a tunnel if the client's right to the tunnel depends on the record.
"""

from chalicelib.model.accounts.accounts import SCOPE
from chalicelib.model.base import kinds
from chalicelib.model.tunnels.tunnels import ServedTunnel
from chalicelib.storage.records.change_log import ItemKey

_UNRELATED = {kinds.TLS_CERTIFICATES.path}  # kinds of records on which the right to a tunnel never depends


def concerns(key: ItemKey, tunnel: ServedTunnel) -> bool:
    """Return whether a change of the record with the key `key` can end a tunnel.

    A tunnel depends on its own record and on the records of its account, except for TLS certificates and other tunnels.
    """
    if key.scope == SCOPE:
        return key.id == tunnel.account
    account, _, path = key.scope.partition("#")
    if account != tunnel.account or path in _UNRELATED:
        return False
    return path != kinds.TUNNELS.path or key.id == tunnel.id
