"""Plans the next state of a resource, and which changes replace the resource. Does no I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tunneledge_provider.kinds import Attribute, Kind
from tunneledge_provider.values import UNKNOWN, State, means_the_same

_NOTES = {"description", "metadata"}  # if only these attributes change, the API changes no other attribute


@dataclass(frozen=True)
class Plan:
    """The planned state. The changes of the attributes in `replaced` require a replacement of the resource."""

    state: State
    replaced: tuple[str, ...] = ()


def plan(kind: Kind, config: Mapping[str, Any], prior: Mapping[str, Any] | None) -> Plan:
    """Return the plan of an update, or of a creation if `prior` is None."""
    planned = {it.name: _planned(it, config.get(it.name), _of(prior, it.name)) for it in kind.attributes}
    planned |= _other_parts(kind, config, prior or {})
    if prior is None or planned == {it.name: prior.get(it.name) for it in kind.attributes}:
        return Plan(planned)
    adopted = {it.name for it in kind.attributes if it.hidden and prior.get(it.name) is None}
    changed = {name for name, value in planned.items() if value != prior.get(name)} - adopted
    if not changed <= _NOTES:
        planned |= {it.name: UNKNOWN for it in kind.attributes if _depends_on_others(it)}
        planned |= _forget(kind.attributes, config, planned, changed)
    fixed = [it for it in kind.attributes if it.fixed and it.name not in adopted]
    replaced = [it.name for it in fixed if not means_the_same(it, prior.get(it.name), planned[it.name])]
    return Plan(planned, tuple(replaced))


def _of(prior: Any, name: str) -> Any:
    """Return a field of an object in the prior state. Return UNKNOWN if the state has no such object."""
    return prior.get(name) if isinstance(prior, Mapping) else UNKNOWN


def _planned(attribute: Attribute, config: Any, prior: Any) -> Any:
    """Return the planned value of an attribute.

    It is the prior value if the configuration has the same meaning, or if a computed attribute is not configured.
    """
    if config is UNKNOWN:
        return UNKNOWN
    if config is None:
        return prior if attribute.computed else None
    if attribute.type == "object":
        return {it.name: _planned(it, config.get(it.name), _of(prior, it.name)) for it in attribute.fields}
    if attribute.type == "objects":
        before = prior if isinstance(prior, list) else []
        as_object = Attribute(attribute.name, "object", fields=attribute.fields)
        found = [before[place] if place < len(before) else UNKNOWN for place in range(len(config))]
        return [_planned(as_object, new, old) for new, old in zip(config, found, strict=True)]
    return prior if prior is not None and means_the_same(attribute, prior, config) else config


def _other_parts(kind: Kind, config: Mapping[str, Any], prior: Mapping[str, Any]) -> State:
    """Return planned values for attributes in `kind.parts` that are not configured.

    A resource can have only one of these attributes. If none is configured, all become null. If the configuration adds
    one, the other attributes become null, or unknown if they are computed. In all other cases, return {}.
    """
    configured = [it for it in kind.parts if config.get(it) is not None]
    others = [it for it in kind.parts if config.get(it) is None]
    if not configured:
        return dict.fromkeys(others)
    if any(prior.get(it) is None for it in configured):
        return {it: UNKNOWN if kind.attribute(it).computed else None for it in others}
    return {}


def _depends_on_others(attribute: Attribute) -> bool:
    return not (attribute.is_configurable or attribute.stable or attribute.sensitive)


def _forget(
    attributes: Iterable[Attribute], config: Mapping[str, Any], planned: Mapping[str, Any], changed: set[str]
) -> State:
    """Return the planned objects, with some fields replaced by UNKNOWN.

    A field is replaced if it is not configured and has the same name as a changed attribute of the resource. The API
    may change such a field together with the attribute.
    """
    found: State = {}
    for attribute in attributes:
        name = attribute.name
        given, value = config.get(name), planned.get(name)
        if isinstance(given, dict) and isinstance(value, dict):
            repeated = [it.name for it in attribute.fields if it.name in changed and given.get(it.name) is None]
            found[name] = {**value, **dict.fromkeys(repeated, UNKNOWN)}
    return found
