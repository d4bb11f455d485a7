"""Bots, which own credentials like users. Only admins may use these endpoints.

Only the operator can make a bot an admin.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any

from chalicelib.http import auth
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call, Endpoint
from chalicelib.http.errors import Conflict, Forbidden, InvalidRequest
from chalicelib.http.resource import EditableResource, New, show_fields
from chalicelib.model.accounts import switching
from chalicelib.model.accounts.accounts import Bot
from chalicelib.model.base import kinds
from chalicelib.resources.accounts import offboarding
from chalicelib.resources.accounts.offboarding import OwnerOffboard
from chalicelib.schema.fields import DescribedShape, Name, Shown
from chalicelib.schema.rules import After, if_null, max_bytes
from chalicelib.schema.shapes import Shape
from chalicelib.storage.records.items import Item

_CONTROLS = r"\x00-\x1f\x7f-\x9f"
_HIDDEN = "[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"  # characters that are invisible or reorder text
_FORM = rf"[^=+@{_CONTROLS}-][^{_CONTROLS}]*"


def check_new_name(text: str) -> str:
    """Return a name for a new user or bot. Raises ValueError if the name is not permitted."""
    if not re.fullmatch(_FORM, text) or re.search(_HIDDEN, text):
        raise ValueError("must not be empty, begin with =, +, - or @, or contain control or formatting characters")
    return text


NewName = Annotated[
    str, After(check_new_name, {"minLength": 1, "pattern": f"^{_FORM}$", "format": "new-name"}), max_bytes(255)
]


class BotCreate(DescribedShape):
    name: NewName
    """Unique among the bots and users of the account."""

    active: Annotated[bool, if_null(True)] = True
    """False: API keys and SSH credentials of the bot are refused from the next request on."""


class BotChange(BotCreate):
    name: Name = ""


class BotUser(BotCreate, Shown):
    """A program that owns API keys and SSH credentials, like a user. For admins only."""

    # any name: the rules for new names do not apply to responses, because older names may break them
    name: Name


def make_admin(caller: Caller, id: str, request: BotCreate) -> New:
    """Return a bot with the role admin. Only the operator may do this."""
    return New(Bot.of({**request.values(), "admin": True}))


def _build_responses(bots: Sequence[Item], call: Call) -> list[dict[str, Any]]:
    responses = [{**show_fields(Bot, bot, call), "active": switching.is_shown_active(bot)} for bot in bots]
    return [{name: value for name, value in bot.items() if name != "admin"} for bot in responses]


class Bots(EditableResource):
    """Bots. Switching one on or off also updates its API keys and SSH credentials."""

    def endpoints(self) -> tuple[Endpoint, ...]:
        return (*super().endpoints(), offboarding.endpoint(self, OwnerOffboard))

    def patch(self, call: Call) -> Item:
        bot = switching.rewrite(
            call.change, self.scope(call), call.id, lambda item: self.apply_changes(item, call.body)
        )
        if bot is None:
            raise self.missing()
        return switching.update_keys(bot.account, bot.id) if {"active", "name"} & call.body.fields_set().keys() else bot

    def apply_changes(self, item: Item, request: Shape) -> Item:
        """Return the bot with the requested fields. Rules for names apply only if the name changes."""
        name = request.fields_set().get("name")
        if name and name != Bot.of(item.body).name:
            _check_name(name)
        return switching.mark_switch(item, super().apply_changes(item, request))


def _check_name(name: str) -> None:
    try:
        check_new_name(name)
    except ValueError as error:
        raise InvalidRequest.of({"name": str(error)}) from None


RESOURCE = Bots(
    kind=kinds.BOT_USERS,
    stored=Bot,
    create=BotCreate,
    change=BotChange,
    response=BotUser,
    errors={
        "GET": (Forbidden,),
        "POST": (Forbidden, Conflict),
        "PATCH": (Forbidden, Conflict),
        "DELETE": (Forbidden, Conflict),
    },
    to_responses=_build_responses,
    permits=auth.require_admin,
    remove=switching.remove,
)
