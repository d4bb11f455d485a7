"""API keys: bearer tokens for this API (SPEC 2.2). The token is shown once; only its digest is stored."""

from chalicelib.api import caller as callers
from chalicelib.api import references
from chalicelib.api.caller import Caller
from chalicelib.api.errors import Conflict, Forbidden, UnknownReference
from chalicelib.api.fields import Described, OwnerId, Shown
from chalicelib.api.resource import EditableResource, New


class Create(Described):
    owner_id: OwnerId = ""
    """User or bot that owns the key. Defaults to the authenticated user or bot. Only admins may set another."""


class APIKey(Create, Shown):
    """A bearer token for this API."""

    token: str | None
    """Bearer token for the Authorization header. Present only in the response to creation, null in every other."""


def make(caller: Caller, id: str, asked: Create) -> New:
    owner = caller.owner(asked.owner_id)
    token, digest = callers.new_token(id)
    return New(
        body={
            "description": asked.description,
            "metadata": asked.metadata,
            "token": None,
            "owner_id": owner.id,
        },
        once={"token": token},
        claims=(callers.token_claim(id, digest, caller.account, owner),),
    )


API_KEYS = EditableResource(
    prefix="ak",
    path="/api_keys",
    items="keys",
    create=Create,
    shows=APIKey,
    make=make,
    points=references.owner,
    refuses={"POST": (Forbidden, UnknownReference, Conflict)},
)
