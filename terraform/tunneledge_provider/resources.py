"""Creates, reads, updates, deletes and imports resources by the API."""

import time
from collections.abc import Mapping
from typing import Any

from tunneledge_provider.api import Api, ApiError
from tunneledge_provider.kinds import Attribute, Kind
from tunneledge_provider.values import (
    UNKNOWN,
    State,
    complete,
    from_answer,
    object_from_answer,
    object_to_request,
    refresh,
)

_POLL = 1.0  # seconds between two reads of a status
_LONGEST_WAIT = 600  # maximum seconds to wait for a status


class UnfinishedError(Exception):
    """A resource was created, but not all attributes could be set. `state` is its state in the API."""

    def __init__(self, state: State, cause: ApiError) -> None:
        super().__init__(str(cause))
        self.state, self.cause = state, cause


def create(api: Api, kind: Kind, planned: State) -> State:
    """Create a resource, then set the attributes that its creation does not accept. Return its state.

    Raises ApiError, UnfinishedError.
    """
    body = object_to_request(_select(kind, kind.created), planned)
    shown = _read_state(kind, planned, api.send("POST", kind.collection_path(planned), body))
    state = {**planned, "id": shown["id"]}
    try:
        if later := object_to_request(_select(kind, kind.updated - kind.created), planned):
            shown |= _read_state(kind, planned, api.send("PATCH", kind.item_path(state), later))
        for name in kind.modules:
            if planned[name] is not None:
                shown[name] = _replace_module(api, kind, state, name)
    except ApiError as error:
        raise UnfinishedError(_complete_state(planned, shown), error) from error
    return _complete_state(planned, shown)


def read(api: Api, kind: Kind, state: State) -> State | None:
    """Return the current state. Return None if the resource does not exist any more."""
    try:
        answer = api.get(kind.item_path(state))
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    shown = _read_state(kind, state, answer)
    for name in kind.modules:
        shown[name] = _read_module(api, kind, state, name)
    return {
        attribute.name: refresh(attribute, state.get(attribute.name), shown[attribute.name])
        for attribute in kind.attributes
    }


def update(api: Api, kind: Kind, prior: State, planned: State) -> State:
    """Change attributes that differ, then remove modules that are null in the plan. Return the new state.

    Modules are removed last: without a module that checks visitors, an edge would admit all visitors for a moment. Only
    an attribute in `kind.parts` that another one replaces is removed first, because both cannot be set at once.
    """
    changed = {attribute.name for attribute in kind.attributes if planned[attribute.name] != prior.get(attribute.name)}
    removed = [name for name in kind.removals if planned[name] is None and prior.get(name) is not None]
    path = kind.item_path(prior)
    if any(name in changed and planned[name] not in (None, UNKNOWN) for name in kind.parts):
        first = [name for name in kind.parts if planned[name] in (None, UNKNOWN) and prior.get(name) is not None]
        for name in first:
            _delete(api, f"{path}/{kind.removals[name]}")
        removed = [name for name in removed if name not in first]
    body = object_to_request(_select(kind, kind.updated & changed), planned)
    body |= {name: {} for name in _list_emptied(kind, prior, planned)}
    if body:
        api.send("PATCH", path, body)
    for name in kind.modules:
        if name in changed and planned[name] is not None:
            _replace_module(api, kind, planned, name)
    for name in removed:
        _delete(api, f"{path}/{kind.removals[name]}")
    current = read(api, kind, prior)
    if current is None:
        raise ApiError(404, "The resource was deleted while it was changed: apply again to create it.")
    return _complete_state(planned, current)


def delete(api: Api, kind: Kind, state: State) -> None:
    """Delete a resource. Do nothing if the resource does not exist."""
    _delete(api, kind.item_path(state))


def parse_import_id(kind: Kind, id: str) -> State:
    """Return a state with only the ids that the import names. Raises ValueError if `id` is malformed."""
    values = id.split("/")
    if len(values) != len(kind.keys) or not all(values):
        raise ValueError(f"{id!r} cannot be imported: the id of a {kind.name} has the form {'/'.join(kind.keys)}.")
    return {**{attribute.name: None for attribute in kind.attributes}, **dict(zip(kind.keys, values, strict=True))}


def look_up(api: Api, kind: Kind, config: State) -> State:
    """Return the state of a data source. Raises ApiError if there is no such resource."""
    state = read(api, kind, {**{attribute.name: None for attribute in kind.attributes}, **config})
    if state is None:
        raise ApiError(404, f"There is no {kind.name} with the id {config['id']}.")
    return state


def look_up_status(api: Api, kind: Kind, config: State) -> State:
    """Return the status of an edge. Wait until it is not `waiting`, or for `wait_seconds`."""
    end = time.monotonic() + min(float(config.get("wait_seconds") or 0), _LONGEST_WAIT)
    while True:
        answer = api.get(f"{kind.item_path(config)}/status")
        if answer["state"] != "waiting" or time.monotonic() >= end:
            return {**config, **object_from_answer(kind.status, answer)}
        time.sleep(_POLL)


def _select(kind: Kind, names: frozenset[str]) -> list[Attribute]:
    return [attribute for attribute in kind.attributes if attribute.name in names]


def _read_state(kind: Kind, state: Mapping[str, Any], answer: Mapping[str, Any]) -> State:
    """Return the state in a response. Take the ids of parent resources from `state`, since some responses lack them."""
    return {**object_from_answer(kind.attributes, answer), **{parent: state[parent] for parent in kind.parents}}


def _list_emptied(kind: Kind, prior: State, planned: State) -> list[str]:
    """Return the names of object attributes that the update request must set to null.

    These attributes were set, are null in the plan, and have no DELETE request.
    """
    objects = [
        attribute.name
        for attribute in _select(kind, kind.updated)
        if attribute.type == "object" and attribute.name not in kind.removals
    ]
    return [name for name in objects if planned[name] is None and prior.get(name) is not None]


def _replace_module(api: Api, kind: Kind, state: State, name: str) -> Any:
    """Replace a module by a PUT request to its path. Return the values in the response."""
    attribute = kind.attribute(name)
    body = object_to_request(attribute.fields, state[name])
    answer = api.send("PUT", f"{kind.item_path(state)}/{name}", body)
    return object_from_answer(attribute.fields, answer)


def _read_module(api: Api, kind: Kind, state: State, name: str) -> Any:
    """Read a module from its path. Return None if it is not set."""
    try:
        answer = api.get(f"{kind.item_path(state)}/{name}")
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    return from_answer(kind.attribute(name), {name: answer})


def _delete(api: Api, path: str) -> None:
    try:
        api.send("DELETE", path)
    except ApiError as error:
        if error.status != 404:
            raise


def _complete_state(planned: State, shown: Mapping[str, Any]) -> State:
    return {name: complete(value, shown.get(name)) for name, value in planned.items()}
