"""The stored CA for TLS between edge hosts, gateways and sign-in services. KMS encrypts the CA's private key."""

from contextlib import suppress

from chalicelib import clock
from chalicelib.model.audit import trail
from chalicelib.model.base.kinds import EDGE
from chalicelib.model.changes import Change
from chalicelib.model.sign_in import link_pairs
from chalicelib.model.sign_in.link_pairs import LinkPair
from chalicelib.storage import vault
from chalicelib.storage.records import items, table
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import Taken, UniqueKey
from edge.link import authority, server
from edge.link.authority import Authority
from edge.link.renewal import PERIOD
from edge.store.records import Unavailable

_SCOPE, _ID = items.scope(EDGE, "/authorities"), "hop"


def read_or_create() -> Authority:
    """Return the certificate authority. Create it if there is none. Raises MalformedRecord, aws.Unavailable."""
    item = table.read(_SCOPE, _ID)
    if item is None:
        with suppress(Taken):  # another process has created the authority at the same time
            Change(trail.EDGE).put(_create()).commit()
        item = table.read(_SCOPE, _ID)
    if item is None:
        raise Unavailable(
            "the new certificate authority of the edge's link is missing in the store: start the process again"
        )
    return vault.unseal(item.sealed["authority"], vault.context(EDGE, _ID), _parse)


def renew_sign_in_pair(link_authority: Authority) -> None:
    """Store a new TLS key pair for sign-in services. Raises aws.Unavailable.

    Does nothing if the CA issued the stored pair less than a day ago.
    """
    now = clock.seconds()
    try:
        stored = link_pairs.read()
    except MalformedRecord:
        stored = None
    if stored and stored.pair.authority == link_authority.pem and now < stored.pair.made_at + PERIOD:
        return
    pair = link_authority.issue_for_server(server.SIGN_IN)
    link_pairs.write(LinkPair(chain=pair.chain, authority=link_authority.pem, made_at=now), pair.key.encode())


def _create() -> Item:
    """Return the record of a new CA.

    Its unique key is the same for every CA, so that a second CA cannot be stored.
    """
    pem = authority.make("Hop of the live edge").to_pem().encode()
    sealed = {"authority": vault.seal(pem, vault.context(EDGE, _ID))}
    return Item(_SCOPE, _ID, {"name": _ID}, sealed=sealed, unique_keys=(UniqueKey("edge_authority", _ID),))


def _parse(pem: bytes) -> Authority:
    return authority.from_pem(pem.decode())
