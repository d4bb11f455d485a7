"""Addresses in bodies: some clients repeat there what the path says, and send a module as `{"module": {…}}`."""

from collections.abc import Mapping
from typing import Any

_RULE = "must be the id in the path, or absent"
_MODULE = "module"


def of(method: str, template: str, path: Mapping[str, str]) -> dict[str, str]:
    """Return the ids that a body may repeat, by the names of the fields: `id` is of what is changed or replaced."""
    ids = [*path.values()]
    own = {"id": ids[-1]} if method in ("PATCH", "PUT") else {}
    return {**own, "edge_id": ids[0]} if ids and template.startswith("/edges/") else own


def without(values: Mapping[str, Any], ids: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a body without these ids, and a validation error for each that differs from the path's."""
    wrong = {name: _RULE for name, id in ids.items() if values.get(name, id) != id}
    return {name: value for name, value in values.items() if name not in ids}, wrong


def unwrapped(values: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the module in the body of a PUT, and the prefix of its fields' dotted paths: "module." or ""."""
    if values.keys() == {_MODULE} and isinstance(values[_MODULE], dict):
        return values[_MODULE], f"{_MODULE}."
    return values, ""
