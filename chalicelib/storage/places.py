"""The places of items' records, which for routes of HTTPS edges is not where their scope and id say.

All routes of an account lie in one collection, in the order of their edges, so that one query reads those of a page of
edges: the route R of the edge E has the scope `acct_…#/edges/https/E/routes`, and its record the scope
`acct_…#/edges/https/routes` and the id `E/R`. Up to the second edition the record had the scope and id of the route.
Both are read; RECORDS_EDITION says which one is written.
"""

import os
import re

Place = tuple[str, str]  # the scope and id of a record

_TOGETHER = re.compile(r"([^#]+#/edges/https)/([^/]+)(/routes)")
_COLLECTION = re.compile(r"([^#]+#/edges/https)(/routes)")


def latest(scope: str, id: str) -> Place:
    """Return where the record of an item lies by the latest edition."""
    collection, before = collected(scope)
    return collection, f"{before}{id}"


def written(scope: str, id: str) -> Place:
    """Return where the record of a new item is to lie."""
    return latest(scope, id) if edition() > 2 else (scope, id)


def collected(scope: str) -> tuple[str, str]:
    """Return the scope under which the records of a scope's items lie, and what their ids begin with there."""
    if found := _TOGETHER.fullmatch(scope):
        return f"{found[1]}{found[3]}", f"{found[2]}/"
    return scope, ""


def of_item(scope: str, id: str) -> tuple[str, str]:
    """Return the scope and id of the item whose record lies at a place of any edition."""
    if "/" in id and (found := _COLLECTION.fullmatch(scope)):
        above, _, own = id.partition("/")
        return f"{found[1]}/{above}{found[2]}", own
    return scope, id


def edition() -> int:
    """Return the edition whose form new records get: the second while anything runs that reads no other."""
    return int(os.environ.get("RECORDS_EDITION") or 3)
