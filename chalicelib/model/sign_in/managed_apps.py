"""The operator's OAuth applications, at most one for each provider.

They sign in visitors of routes if the OAuth module names no `client_id`.
"""

from dataclasses import dataclass, field

from chalicelib import clock
from chalicelib.model import changes
from chalicelib.model.audit import trail
from chalicelib.model.base import records
from chalicelib.model.base.kinds import EDGE
from chalicelib.model.base.records import Created
from chalicelib.model.changes import Change
from chalicelib.storage import vault
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import items, table
from chalicelib.storage.records.items import Item

SCOPE = items.scope(EDGE, "/oauth_apps")
CONTEXT = vault.context("edge", "oauth_apps")


@dataclass(frozen=True, kw_only=True)
class ManagedApp(Created):
    """The stored form of an OAuth application. Its client secret is encrypted."""

    client_id: str
    client_secret: bytes = field(repr=False)

    def open_secret(self) -> str:
        """Return the decrypted client secret of the application. Raises aws.Unavailable."""
        return vault.unseal(self.client_secret, CONTEXT, bytes.decode)


def set_app(provider: str, client_id: str, secret: str) -> None:
    """Store the OAuth application of a provider, with an audit event. Raises aws.Unavailable."""
    sealed = vault.seal(secret.encode(), CONTEXT)
    app = ManagedApp(created_at=clock.rfc3339(clock.now()), client_id=client_id, client_secret=sealed)
    record = Item(SCOPE, provider, app.to_record()).to_record()
    event = trail.operator_event("oauth_app.set", provider)
    Change(trail.OPERATOR).add(Write.put(record), event).commit()


def remove(provider: str) -> bool:
    """Remove the OAuth application of a provider. Return False if there is none. Raises aws.Unavailable."""
    change = Change(trail.OPERATOR).add(trail.operator_event("oauth_app.delete", provider))
    return changes.delete(change, SCOPE, provider)


def read_all() -> dict[str, ManagedApp]:
    """Return the OAuth applications by provider, without malformed ones. One query. Raises aws.Unavailable."""
    return {item.id: app for item, app in records.decode_each(ManagedApp, table.read_all(SCOPE))}
