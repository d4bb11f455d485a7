"""Users: the people of an account. The operator creates them.

Admins switch them on and off, except the account's last active admin.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call, Endpoint
from chalicelib.http.errors import Conflict, Forbidden
from chalicelib.http.resource import Resource
from chalicelib.model.accounts import switching
from chalicelib.model.accounts.accounts import User
from chalicelib.model.base import kinds, records
from chalicelib.schema.fields import Shown
from chalicelib.schema.shapes import Shape
from chalicelib.storage.records.items import Item


class UserChange(Shape):
    active: bool = True
    """False: API keys and SSH credentials of the user are refused from the next request on."""


class ShownUser(Shown):
    """A person of the account, added by the operator. `owner_id` and audit events name users by id."""

    name: str
    """Unique among the users and bots of the account."""

    role: Literal["admin", "member"]
    """An admin may act for the other users and bots of the account."""

    active: bool
    """False: API keys and SSH credentials of the user are refused."""


def _responses(users: Sequence[Item], call: Call) -> list[dict[str, Any]]:
    return [_response(user, records.decode(User, user), call) for user in users]


def _response(item: Item, user: User, call: Call) -> dict[str, Any]:
    return {
        "id": item.id,
        "uri": f"{call.base_url}{item.path}/{item.id}",
        "created_at": user.created_at,
        "name": user.name,
        "role": user.role,
        "active": switching.is_shown_active(item),
    }


def _permit(caller: Caller) -> None:
    if not caller.admin:
        raise Forbidden("Only an admin may switch users on and off.")


class Users(Resource):
    """Users. Switching one on or off also updates its API keys and SSH credentials."""

    def endpoints(self) -> tuple[Endpoint, ...]:
        own = {"body": UserChange, "response": self.response, "permits": _permit, "errors": (Forbidden, Conflict)}
        return (*super().endpoints(), self.endpoint("PATCH", self.kind.one, 200, self.patch, **own))

    def patch(self, call: Call) -> Item:
        sets = call.body.fields_set()

        def switched(item: Item) -> Item:
            before = User.of(item.body)
            after = replace(before, **sets)
            body = {**item.body, **after.to_record()} if after != before else item.body
            return switching.mark_switch(item, replace(item, body=body))

        user = switching.rewrite(call.change, self.scope(call), call.id, switched)
        if user is None:
            raise self.missing()
        return switching.update_keys(user.account, user.id) if sets else user


RESOURCE = Users(kind=kinds.USERS, stored=User, response=ShownUser, to_responses=_responses)
