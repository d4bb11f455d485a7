"""API keys: bearer tokens for this API (SPEC 2.2). The token is shown once; only its digest is stored."""

from chalicelib.http.auth import Caller
from chalicelib.http.errors import Conflict, Forbidden, UnknownReference
from chalicelib.http.resource import EditableResource, New
from chalicelib.model import api_keys, kinds, references
from chalicelib.schema.fields import Described, OwnerId, Shown


class Create(Described):
    owner_id: OwnerId = ""
    """User or bot that owns the key. Defaults to the authenticated user or bot. Only admins may set another."""


class APIKey(Create, Shown):
    """A bearer token for this API."""

    token: str | None
    """Bearer token for the Authorization header. Present only in the response to creation, null in every other."""


def make(caller: Caller, id: str, request: Create) -> New:
    owner = caller.owner(request.owner_id)
    token, digest = api_keys.new_token(id)
    return New(
        body={
            "description": request.description,
            "metadata": request.metadata,
            "token": None,
            "owner_id": owner.id,
        },
        once={"token": token},
        unique_keys=(api_keys.unique_key(id, digest, caller.account, owner),),
    )


RESOURCE = EditableResource(
    kind=kinds.API_KEYS,
    create=Create,
    response=APIKey,
    make=make,
    references=references.to_owner,
    errors={"POST": (Forbidden, UnknownReference, Conflict)},
)
