"""Users: the people of an account. Only the operator makes a user an admin.

Admins create members, switch users on and off, and delete users who own nothing, except the last active admin.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call, CreatedItem, Endpoint
from chalicelib.http.errors import Conflict, Forbidden
from chalicelib.http.resource import Resource
from chalicelib.model.accounts import accounts, ownership, switching
from chalicelib.model.accounts.accounts import User
from chalicelib.model.accounts.federated_credentials import IDENTITY
from chalicelib.model.base import kinds, records
from chalicelib.resources.accounts import offboarding
from chalicelib.resources.accounts.bot_users import NewName
from chalicelib.resources.accounts.offboarding import OwnerOffboard
from chalicelib.schema.fields import Shown
from chalicelib.schema.shapes import Shape
from chalicelib.storage.records import table, writes
from chalicelib.storage.records.items import Item


class NewUser(Shape):
    name: NewName
    """Unique among the users and bots of the account."""


class UserChange(Shape):
    active: bool = True
    """False: API keys and SSH credentials of the user are refused from the next request on."""


class ShownUser(Shown):
    """A person of the account. `owner_id` and audit events name users by id."""

    name: str
    """Unique among the users and bots of the account."""

    role: Literal["admin", "member"]
    """An admin may act for the other users and bots of the account."""

    active: bool
    """False: API keys and SSH credentials of the user are refused."""


def _build_responses(users: Sequence[Item], call: Call) -> list[dict[str, Any]]:
    return [_build_response(user, records.decode(User, user), call) for user in users]


def _build_response(item: Item, user: User, call: Call) -> dict[str, Any]:
    return {
        "id": item.id,
        "uri": f"{call.base_url}{item.path}/{item.id}",
        "created_at": user.created_at,
        "name": user.name,
        "role": user.role,
        "active": switching.is_shown_active(item),
    }


def _permit(caller: Caller) -> None:
    caller.require_admin("switch users on and off")


def _permit_others(caller: Caller) -> None:
    caller.require_admin("create and delete users")


class Users(Resource):
    """Users. Switching one on or off also updates its API keys and SSH credentials."""

    def endpoints(self) -> tuple[Endpoint, ...]:
        options = {"response": self.response, "errors": (Forbidden, Conflict)}
        common_errors = (Forbidden,)
        admin_options = {**options, "permits": _permit_others}
        return (
            *super().endpoints(),
            self.endpoint("POST", self.kind.path, 201, self.post, body=NewUser, **admin_options),
            self.endpoint("PATCH", self.kind.item_path, 200, self.patch, body=UserChange, permits=_permit, **options),
            self.endpoint("DELETE", self.kind.item_path, 204, self.delete, **{**admin_options, "response": None}),
            offboarding.endpoint(self, OwnerOffboard),
            self.endpoint(
                "DELETE",
                f"{self.kind.item_path}/identity",
                204,
                self.unbind,
                permits=_permit_others,
                errors=common_errors,
            ),
        )

    def post(self, call: Call) -> CreatedItem:
        account = call.caller.account
        user = accounts.new_user(account, call.body.name, admin=False)
        change = call.change.put(user).add(accounts.count_new_user(account))
        writes.retry(change.commit)
        return CreatedItem(user)

    def delete(self, call: Call) -> None:
        scope = self.scope(call)
        if table.find(scope, call.id) is None:
            raise self.missing()
        if credentials := ownership.list_keys_and_credentials(call.caller.account, call.id):
            example = f"for example {credentials[0].id}"
            raise Conflict(
                f"The user owns {len(credentials)} API keys and SSH credentials, {example}: delete them first."
            )
        if not switching.remove(call.change, scope, call.id):
            raise self.missing()

    def unbind(self, call: Call) -> None:
        """Remove the identity (the subject of an issuer) to which a user is bound."""

        def attempt() -> None:
            user = table.read(self.scope(call), call.path["id"])
            other_keys = tuple(key for key in user.unique_keys if key.kind != IDENTITY) if user else ()
            if user is None or other_keys == user.unique_keys:
                raise self.missing()
            unbound = replace(user, unique_keys=other_keys)
            call.change.rewrite(user, lambda _: unbound, verb="delete", module=IDENTITY).commit()

        writes.retry(attempt)

    def patch(self, call: Call) -> Item:
        sets = call.body.fields_set()

        def edit(item: Item) -> Item:
            before = User.of(item.body)
            after = replace(before, **sets)
            return switching.mark_switch(item, replace(item, body=records.body_of_change(item, before, after)))

        user = switching.rewrite(call.change, self.scope(call), call.id, edit)
        if user is None:
            raise self.missing()
        return switching.update_keys(user.account, user.id) if sets else user


RESOURCE = Users(kind=kinds.USERS, stored=User, response=ShownUser, to_responses=_build_responses)
