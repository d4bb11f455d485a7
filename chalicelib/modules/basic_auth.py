"""Passwords on HTTPS edge routes, and for the tunnels of reserved domains.

Only digests of the passwords are stored, encrypted like secrets. No response, event or log contains a password.
"""

from typing import Annotated, Any

from chalicelib.http.endpoints import Call
from chalicelib.http.module import Enabled, Module, forbid_modules
from chalicelib.model.base import kinds
from chalicelib.model.edges.enforced import enforced_modules
from chalicelib.model.edges.modules.basic_auth import MODULE, BasicAuthModule
from chalicelib.schema.fields import SECRET
from chalicelib.schema.rules import After, entries, form, max_bytes
from chalicelib.schema.shapes import Shape
from chalicelib.storage.records.items import Item

_MAX_CREDENTIALS = 10
_MAX_USERNAME = 128
_USERNAME = r"[^:\x00-\x1f\x7f-\x9f]+"
_NO_USERNAME = "must not be empty or contain a colon or control characters"
_SHORTEST, _LONGEST = 8, 128
_PASSWORD = rf"[^\x00-\x1f\x7f-\x9f]{{{_SHORTEST},{_LONGEST}}}"
_NO_PASSWORD = f"must have {_SHORTEST} to {_LONGEST} characters and no control characters"


class BasicCredential(Shape):
    """A visitor's user name and password."""

    username: Annotated[str, form(_USERNAME, _NO_USERNAME), max_bytes(_MAX_USERNAME)]
    f"""The name of the user, at most {_MAX_USERNAME} bytes without a colon."""

    password: Annotated[str, SECRET, form(_PASSWORD, _NO_PASSWORD)]
    f"""The password, {_SHORTEST} to {_LONGEST} characters. It is never shown."""


class ShownBasicCredential(Shape):
    """A visitor's user name. The password is never shown."""

    username: str
    """The name of the user."""

    password: Annotated[str, SECRET]
    """Always `""`."""


def _reject_duplicates(credentials: list[BasicCredential]) -> list[BasicCredential]:
    if len({credential.username for credential in credentials}) < len(credentials):
        raise ValueError("must not name a user twice")
    return credentials


class BasicAuth(Enabled):
    """Admits only visitors that send a user name and its password (RFC 7617)."""

    credentials: Annotated[list[BasicCredential], entries(1, _MAX_CREDENTIALS), After(_reject_duplicates)]
    f"""The users that may pass, at most {_MAX_CREDENTIALS}."""


class ShownBasicAuth(Enabled):
    """Admits only visitors that send a user name and its password (RFC 7617)."""

    credentials: list[ShownBasicCredential]
    """The users that may pass."""


def _describe(shape: type[Enabled], parent: str) -> type[Enabled]:
    """Return a subclass of the model `shape`. Its description names `parent`, for example "an HTTPS edge route"."""
    description = f"Admits only visitors of {parent} that send a user name and its password (RFC 7617)."
    return type(shape.__name__, (shape,), {"__doc__": description})


def _build_response(module: BasicAuthModule, _parent: Item, _call: Call) -> dict[str, Any]:
    return {
        "enabled": module.enabled,
        "credentials": [{"username": username, "password": ""} for username in module.usernames],
    }


_PARENTS = {kinds.HTTPS_EDGE_ROUTES: "an HTTPS edge route", kinds.RESERVED_DOMAINS: "the tunnels of a reserved domain"}
MODULES = tuple(
    Module(
        path=path,
        shape=_describe(BasicAuth, _PARENTS[kind]),
        stored=MODULE.stored,
        shows=_describe(ShownBasicAuth, _PARENTS[kind]),
        to_response=_build_response,
        conflicts=forbid_modules(enforced_modules.list_excluded(MODULE.name), "credentials"),
    )
    for kind, path in zip(MODULE.parents, MODULE.paths, strict=True)
)
