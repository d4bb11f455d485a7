"""API keys: bearer tokens for this API (SPEC 2.2). The token is shown once; only its digest is stored."""

from chalicelib.api import caller as callers
from chalicelib.api import references
from chalicelib.api.caller import Caller
from chalicelib.api.fields import Described, OwnerId
from chalicelib.api.resource import EditableResource, New


class Create(Described):
    owner_id: OwnerId = ""


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
    prefix="ak", path="/api_keys", items="keys", create=Create, make=make, points=references.owner
)
