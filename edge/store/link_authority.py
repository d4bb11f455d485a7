"""The record of the link's authority: one for all edge hosts and gateways, encrypted by KMS."""

from contextlib import suppress

from chalicelib.model import audit
from chalicelib.model.changes import Change
from chalicelib.model.kinds import EDGE
from chalicelib.storage import items, table, vault
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import Taken, UniqueKey
from edge.link import authority
from edge.link.authority import Authority
from edge.store.records import Unavailable

_SCOPE, _ID = items.scope(EDGE, "/authorities"), "hop"


def read_or_make() -> Authority:
    """Return the authority; the first edge that asks makes it. Raises aws.Unavailable."""
    found = table.read(_SCOPE, _ID)
    if found is None:
        with suppress(Taken):  # another makes it just now
            Change(audit.EDGE).put(_new()).commit()
        found = table.read(_SCOPE, _ID)
    if found is None:
        raise Unavailable("the link's authority is gone")
    return vault.unseal(found.sealed["authority"], vault.context(EDGE, _ID), _parsed)


def _new() -> Item:
    """Return the record of a fresh authority; its unique key lets one edge alone make it."""
    made = authority.make("Hop of the live edge").to_pem().encode()
    sealed = {"authority": vault.seal(made, vault.context(EDGE, _ID))}
    return Item(_SCOPE, _ID, {"name": _ID}, sealed=sealed, unique_keys=(UniqueKey("edge_authority", _ID),))


def _parsed(pem: bytes) -> Authority:
    return authority.from_pem(pem.decode())
