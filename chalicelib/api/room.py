"""Room in an answer: Lambda sends at most 6 MB, and counts them in JSON in which the answer's text stands once more."""

import json
from collections.abc import Mapping
from typing import Any

from chalicelib.api.errors import Conflict
from chalicelib.storage import table

MOST = 5_500_000  # characters of entries there: their list's address and what it leads to have the rest
_ROUTES = 5_000_000  # of the routes of an edge: the edge, ids, addresses and what is light have the rest
_LIGHT = 2_000  # of what is sure to fit: a hundred routes with five fields and modules of that size


def taken(entry: Mapping[str, Any]) -> int:
    """Characters of an entry there."""
    return len(json.dumps(json.dumps(entry, default=_opened)))


def check(scope: str, id: str, asked: Mapping[str, Any], *, is_new: bool = False) -> None:
    """Refuse fields and modules of a route, with which its edge could not show all that are in the scope with it.

    One query, unless they are light. What comes at the same moment is not seen: deleting and making lighter always
    work. Raises Conflict, aws.Unavailable.
    """
    if taken(asked) < _LIGHT:
        return
    routes = {route.id: {**route.body, **route.parts} for route in table.newest(scope)}
    if not (is_new or id in routes):  # then no edge shows it
        return
    sizes = {route: taken(shown) for route, shown in routes.items()}
    after = {**sizes, id: taken({**routes.get(id, {}), **asked})}
    if sum(after.values()) > max(_ROUTES, sum(sizes.values())):
        raise Conflict(f"The edge's routes would have more than {_ROUTES} characters together: it could not show them.")


def _opened(sealed: bytes) -> str:
    """What takes no less room than the secret does, which is no longer than this."""
    return "\0" * len(sealed)
