"""SSH certificate authorities: their private keys are opened only to sign."""

from chalicelib import crypto
from chalicelib.model import kinds
from chalicelib.storage import items, table, vault
from chalicelib.storage.items import Item


def read(account: str, id: str) -> Item | None:
    """Return the authority, or None when the account has none of that id. Raises aws.Unavailable."""
    return table.read(items.scope(account, kinds.SSH_CERTIFICATE_AUTHORITIES.path), id)


def signing_key(authority: Item) -> "crypto.keys.PrivateKey":
    """Return the authority's private key, for one signature: do not keep it. Raises aws.Unavailable."""
    context = vault.context(authority.account, authority.id)
    return vault.unseal(authority.sealed["private_key"], context, crypto.keys.from_der)
