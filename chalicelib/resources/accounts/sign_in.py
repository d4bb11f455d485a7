"""The parameters with which a client signs a person in at an issuer.

The endpoint requires no authentication, because all parameters are public.
"""

from typing import Any

from chalicelib import ids
from chalicelib.http.endpoints import Call, Endpoint
from chalicelib.http.errors import NotFound
from chalicelib.http.static import NO_CACHE
from chalicelib.model.accounts import federated_credentials
from chalicelib.model.accounts.federated_credentials import FederatedCredential
from chalicelib.model.base import kinds, records
from chalicelib.resources.accounts.federated_fields import SignInParameters
from chalicelib.storage.records import items, table
from chalicelib.storage.records.items import Item

_KIND = kinds.FEDERATED_CREDENTIALS


def _get(call: Call) -> Item:
    """Return the federated credential with an id, in any account. Raises NotFound if it has no enabled sign-in."""
    attributes = table.look_up(federated_credentials.KIND, ids.strip_prefix(call.id))
    item = table.read(items.scope(attributes["account"], _KIND.path), call.id) if attributes else None
    stored = records.decode(FederatedCredential, item) if item else None
    if item is None or stored is None or stored.sign_in is None or not stored.enabled:
        raise NotFound(f"This account has no resource with that id under {_KIND.path}.")
    return item


def _show(credential: Item, _call: Call) -> dict[str, Any]:
    stored = records.decode(FederatedCredential, credential)
    sign_in = stored.sign_in.to_record() if stored.sign_in else {}
    return {"issuer": stored.issuer, **sign_in, "audience": credential.id}


class _SignIn:
    def endpoints(self) -> tuple[Endpoint, ...]:
        options: dict[str, Any] = {"module": "sign_in", "response": SignInParameters, "headers": NO_CACHE}
        return (Endpoint("GET", f"{_KIND.item_path}/sign_in", 200, _get, _show, authorizer=None, **options),)


ROUTES = _SignIn()
