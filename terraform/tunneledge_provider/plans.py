"""Plans the next state of a resource, and which changes replace the resource. Does no I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tunneledge_provider.kinds import Attribute, Kind
from tunneledge_provider.values import UNKNOWN, State, means_the_same

# If only these attributes change, the API changes no other attribute.
_NOTES = {"description", "metadata"}


@dataclass(frozen=True)
class Plan:
    """The planned state. The changes of the attributes in `replaced` require a replacement of the resource."""

    state: State
    replaced: tuple[str, ...] = ()


def plan(kind: Kind, config: Mapping[str, Any], prior: Mapping[str, Any] | None) -> Plan:
    """Return the plan of an update, or of a creation if `prior` is None."""
    planned = {
        attribute.name: _plan_value(attribute, config.get(attribute.name), _get_field(prior, attribute.name))
        for attribute in kind.attributes
    }
    planned |= _other_parts(kind, config, prior or {})
    if prior is None or planned == {attribute.name: prior.get(attribute.name) for attribute in kind.attributes}:
        return Plan(planned)
    adopted = {
        attribute.name for attribute in kind.attributes if attribute.hidden and prior.get(attribute.name) is None
    }
    changed = {name for name, value in planned.items() if value != prior.get(name)} - adopted
    if not changed <= _NOTES:
        planned |= {attribute.name: UNKNOWN for attribute in kind.attributes if _depends_on_others(attribute)}
        planned |= _forget(kind.attributes, config, planned, changed)
    fixed = [attribute for attribute in kind.attributes if attribute.fixed and attribute.name not in adopted]
    replaced = [
        attribute.name
        for attribute in fixed
        if not means_the_same(attribute, prior.get(attribute.name), planned[attribute.name])
    ]
    return Plan(planned, tuple(replaced))


def _get_field(prior: Any, name: str) -> Any:
    """Return a field of an object in the prior state. Return UNKNOWN if the state has no such object."""
    return prior.get(name) if isinstance(prior, Mapping) else UNKNOWN


def _plan_value(attribute: Attribute, config: Any, prior: Any) -> Any:
    """Return the planned value of an attribute.

    It is the prior value if the configuration has the same meaning, or if a computed attribute is not configured.
    """
    if config is UNKNOWN:
        return UNKNOWN
    if config is None:
        return prior if attribute.computed else None
    if attribute.type == "object":
        return {
            field.name: _plan_value(field, config.get(field.name), _get_field(prior, field.name))
            for field in attribute.fields
        }
    if attribute.type == "objects":
        before = prior if isinstance(prior, list) else []
        as_object = Attribute(attribute.name, "object", fields=attribute.fields)
        prior_objects = [before[index] if index < len(before) else UNKNOWN for index in range(len(config))]
        return [
            _plan_value(as_object, config_object, prior_object)
            for config_object, prior_object in zip(config, prior_objects, strict=True)
        ]
    return prior if prior is not None and means_the_same(attribute, prior, config) else config


def _other_parts(kind: Kind, config: Mapping[str, Any], prior: Mapping[str, Any]) -> State:
    """Return planned values for attributes in `kind.parts` that are not configured.

    A resource can have only one of these attributes. If none is configured, all become null. If the configuration adds
    one, the other attributes become null, or unknown if they are computed. In all other cases, return {}.
    """
    configured = [name for name in kind.parts if config.get(name) is not None]
    absent = [name for name in kind.parts if config.get(name) is None]
    if not configured:
        return dict.fromkeys(absent)
    if any(prior.get(name) is None for name in configured):
        return {name: UNKNOWN if kind.attribute(name).computed else None for name in absent}
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
    objects: State = {}
    for attribute in attributes:
        name = attribute.name
        configured, value = config.get(name), planned.get(name)
        if isinstance(configured, dict) and isinstance(value, dict):
            repeated = [
                field.name for field in attribute.fields if field.name in changed and configured.get(field.name) is None
            ]
            objects[name] = {**value, **dict.fromkeys(repeated, UNKNOWN)}
    return objects
