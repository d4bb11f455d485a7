"""Bots: they own credentials as users do. Admins only; that a bot is an admin itself, only the operator can say."""

from dataclasses import replace
from typing import Annotated, Any

from chalicelib.api import fields
from chalicelib.api.caller import Caller
from chalicelib.api.endpoints import Call
from chalicelib.api.errors import Conflict, Forbidden
from chalicelib.api.fields import Described, Name, Shown
from chalicelib.api.resource import EditableResource, New
from chalicelib.api.rules import Unchanged, if_null
from chalicelib.storage import table
from chalicelib.storage.claims import Claim
from chalicelib.storage.items import Item


class Create(Described):
    name: Name
    """Unique in the account."""

    active: Annotated[bool, if_null(True)] = True
    """Keys of an inactive bot are refused from the next request on."""


class Change(Create):
    name: Annotated[Name, Unchanged((None,))] = ""
    active: Annotated[bool, Unchanged((None,))] = True


class BotUser(Create, Shown):
    """Someone without a face: owns credentials as users do. For admins only."""


def make(caller: Caller, id: str, asked: Create) -> New:
    return New(body={**fields.values(asked), "admin": False}, claims=_claims(caller, asked.name))


def make_admin(caller: Caller, id: str, asked: Create) -> New:
    """A bot that may act for the others of its account: for the operator only."""
    new = make(caller, id, asked)
    return replace(new, body={**new.body, "admin": True})


def _claims(caller: Caller, name: str) -> tuple[Claim, ...]:
    return (Claim("name", f"{caller.scope(BOT_USERS.path)}#{name}"),)


def _show(entry: dict[str, Any], _call: Call) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "admin"}


class _BotUsers(EditableResource):
    def scope(self, call: Call) -> str:
        """As any other, but out of reach for whoever is not an admin."""
        if not call.caller.admin:
            raise Forbidden("Only an admin may see and change bots.")
        return super().scope(call)

    def changed(self, call: Call, fields: dict[str, Any]) -> Item | None:
        """As any other, but a new name is claimed and the old one released."""
        if "name" not in fields:
            return super().changed(call, fields)
        claims = _claims(call.caller, fields["name"])
        return table.rewrite(self.scope(call), self.id_in(call), fields, claims=lambda body: claims)


BOT_USERS = _BotUsers(
    prefix="bot",
    path="/bot_users",
    items="bot_users",
    create=Create,
    change=Change,
    shows=BotUser,
    make=make,
    refuses={
        "GET": (Forbidden,),
        "POST": (Forbidden, Conflict),
        "PATCH": (Forbidden, Conflict),
        "DELETE": (Forbidden, Conflict),
    },
    show=_show,
)
