"""The kinds of resources and their attributes, read from `kinds.json`, which the build writes."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Self
from urllib.parse import quote


@dataclass(frozen=True)
class Attribute:
    """One attribute of a Terraform resource, which corresponds to a field of the API's requests or responses."""

    name: str
    type: str  # string, number, bool, json, list, map, object, objects
    of: str = ""  # the type of the elements of a list or map
    description: str = ""
    required: bool = False
    optional: bool = False
    computed: bool = False
    sensitive: bool = False
    fixed: bool = False  # whether a change of this attribute replaces the resource
    hidden: bool = False  # whether no response contains the field, for example a private key
    stable: bool = False  # whether the value of this attribute stays unchanged when other attributes change
    format: str = ""
    shown: str = ""  # the name of the field in responses; requests use `name`
    form: str = ""  # "id": responses have an object with the id instead of the id. "ids": a list of such objects
    fields: tuple["Attribute", ...] = ()

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        fields = tuple(cls.from_json(field_value) for field_value in value.get("fields", ()))
        return cls(**{"shown": value["name"], **value, "fields": fields})

    @property
    def is_configurable(self) -> bool:
        return self.required or self.optional

    def as_computed(self) -> "Attribute":
        """Return the attribute for a data source: it is computed, and cannot be configured."""
        return Attribute(
            self.name,
            self.type,
            self.of,
            self.description,
            computed=True,
            sensitive=self.sensitive,
            format=self.format,
            shown=self.shown,
            form=self.form,
            fields=tuple(field.as_computed() for field in self.fields),
        )


ID = Attribute("id", "string", description="Unique identifier.", required=True, shown="id")
WAIT = Attribute(
    "wait_seconds",
    "number",
    description="How long to wait while the state is `waiting`; 0, the default, does not wait.",
    optional=True,
)


@dataclass(frozen=True)
class Kind:
    """A kind of resource, with the API's paths and the attributes.

    Each parameter of a path is named like an attribute.
    """

    name: str
    path: str
    item: str
    attributes: tuple[Attribute, ...]
    description: str = ""
    parents: tuple[str, ...] = ()
    created: frozenset[str] = frozenset()  # attributes that the body of a POST accepts
    updated: frozenset[str] = frozenset()  # attributes that the body of a PATCH accepts
    modules: tuple[str, ...] = ()  # attributes with separate paths: responses about the resource omit them.
    # by attribute that a DELETE request can remove: the last segment of this request's path
    removals: Mapping[str, str] = field(default_factory=dict)
    # attributes in `removals` that exclude each other: a resource can have only one of them
    parts: tuple[str, ...] = ()
    status: tuple[Attribute, ...] = ()

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        read = {name: content for name, content in value.items() if name not in ("created", "updated")}
        read["attributes"], read["status"] = _attributes(value["attributes"]), _attributes(value.get("status", ()))
        for name in ("parents", "modules", "parts"):
            read[name] = tuple(value[name])
        return cls(**read, created=frozenset(value["created"]), updated=frozenset(value["updated"]))

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the names of the attributes that identify a resource for an import: its parents' ids, and its id."""
        return (*self.parents, "id")

    def collection_path(self, state: Mapping[str, Any]) -> str:
        return _fill(self.path, state)

    def item_path(self, state: Mapping[str, Any]) -> str:
        return _fill(self.item, state)

    @property
    def data_source(self) -> tuple[Attribute, ...]:
        """Return the attributes of the data source. Those in `keys` are required, the others are computed."""
        keys = [ID if key == "id" else self.attribute(key) for key in self.keys]
        return (*keys, *(attribute.as_computed() for attribute in self.attributes if attribute.name not in self.keys))

    @property
    def status_source(self) -> tuple[Attribute, ...]:
        """Return the attributes of the data source for a resource's status, or () if this kind has no status."""
        return (ID, WAIT, *(attribute.as_computed() for attribute in self.status)) if self.status else ()

    def attribute(self, name: str) -> Attribute:
        return next(attribute for attribute in self.attributes if attribute.name == name)


def _attributes(values: Iterable[Mapping[str, Any]]) -> tuple[Attribute, ...]:
    return tuple(map(Attribute.from_json, values))


def _fill(path: str, state: Mapping[str, Any]) -> str:
    return path.format_map({name: quote(value, safe="") for name, value in state.items() if isinstance(value, str)})


def parse(values: Iterable[Mapping[str, Any]]) -> tuple[Kind, ...]:
    """Return the kinds in the content of `kinds.json`."""
    return tuple(map(Kind.from_json, values))


@cache
def load() -> tuple[Kind, ...]:
    """Return the kinds in the `kinds.json` of this wheel."""
    text = resources.files("tunneledge_provider").joinpath("kinds.json").read_text(encoding="utf-8")
    return parse(json.loads(text))
