"""SSH certificate authorities: their private keys are opened only to sign."""

from contextlib import suppress

from chalicelib import crypto
from chalicelib.model import kinds
from chalicelib.storage import aws, items, revocation_lists, table, vault
from chalicelib.storage.items import Item
from chalicelib.storage.revocation_lists import Head, Overtaken


def read(account: str, id: str) -> Item | None:
    """Return the authority, or None when the account has none of that id. Raises aws.Unavailable."""
    return table.read(items.scope(account, kinds.SSH_CERTIFICATE_AUTHORITIES.path), id)


def create(authority: Item) -> None:
    """Store a new authority with its empty list of revocations. Raises aws.Unavailable."""
    head = Head(authority.id, authority.account, authority.body["public_key"])
    table.create(authority, beside=[(revocation_lists.founding(head), Overtaken())])


def delete(scope: str, id: str) -> bool:
    """Remove an authority; its list of revocations stays until the last end. False when there is none.

    Raises aws.Unavailable.
    """
    for _ in table.tries():
        head = revocation_lists.read(id)
        if head is None or head.account != items.account(scope):
            return table.delete(scope, id)
        end = revocation_lists.ending(head, revocation_lists.chunks(id))
        with suppress(Overtaken):
            return table.delete(scope, id, beside=[(end, Overtaken())])
    raise aws.Unavailable("TransactionConflict")


def signing_key(authority: Item) -> "crypto.keys.PrivateKey":
    """Return the authority's private key, for one signature: do not keep it. Raises aws.Unavailable."""
    context = vault.context(authority.account, authority.id)
    return vault.unseal(authority.sealed["private_key"], context, crypto.keys.from_der)
