"""Terraform's resources and data sources, translated from the OpenAPI document."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infra.build.terraform import attributes
from infra.build.terraform.schemas import Json, Schemas

_PARAMETER = re.compile(r"\{(\w+)\}")


def translate(document: Mapping[str, Any]) -> list[Json]:
    """Return every kind of resource that can be created, in the order of the document."""
    schemas = Schemas(document)
    return [_Kind(schemas, path).as_json() for path in document["paths"] if _is_created(document, path)]


def _is_created(document: Mapping[str, Any], path: str) -> bool:
    create = document["paths"][path].get("post", {})
    return str(create.get("operationId", "")).startswith("create_") and not path.endswith("}")


@dataclass(frozen=True)
class _Kind:
    """One kind of resource, with the operations on its collection and on one resource."""

    schemas: Schemas
    path: str

    @property
    def name(self) -> str:
        return str(self._paths[self.path]["post"]["operationId"]).removeprefix("create_")

    @property
    def item(self) -> str:
        """The path of one resource: the path of the collection and one parameter."""
        return next(path for path in self._paths if re.fullmatch(re.escape(self.path) + r"/\{\w+\}", path))

    @property
    def _paths(self) -> Mapping[str, Any]:
        return self.schemas.paths

    def as_json(self) -> Json:
        renamed = self._names_of_parameters()
        separate = [module for module in self._modules() if module not in self._list_created()]
        kind: Json = {
            "name": self.name,
            "description": self.schemas.description(self._find_response()),
            "path": _rename(self.path, renamed),
            "item": _rename(self.item, renamed),
            "parents": [renamed[variable] for variable in _PARAMETER.findall(self.path)],
            "attributes": [*self._parents(renamed), *self._attributes(), *map(self._separate_module, separate)],
            "created": sorted(self._list_created()),
            "updated": sorted(self._list_updated()),
            "modules": separate,
            "removals": self._removals(),
            "parts": [name for name, segment in self._removals().items() if segment not in self._modules()],
        }
        if status := self._paths.get(f"{self.item}/status"):
            answer = self.schemas.answer(status["get"])
            kind["status"] = list(attributes.list_shown(self.schemas, answer))
        return kind

    def _names_of_parameters(self) -> dict[str, str]:
        """Return the attribute for each parameter of a resource's path. The last parameter is the attribute `id`."""
        *above, last = _PARAMETER.findall(self.item)
        return {name: self._name_of_parent() if name == "id" else name for name in above} | {last: "id"}

    def _name_of_parent(self) -> str:
        collection = self.path.partition("/{")[0]
        return _Kind(self.schemas, collection).name + "_id"

    def _parents(self, renamed: Mapping[str, str]) -> Iterator[Json]:
        for parameter in _PARAMETER.findall(self.path):
            yield {"name": renamed[parameter], "type": "string", "required": True, "fixed": True}

    def _attributes(self) -> Iterator[Json]:
        """Yield the attributes of requests, then the attributes that only responses show."""
        requested = {**self._list_updated(), **self._list_created()}
        required = set(self._request("post").get("required", ()))
        shown = self._find_response()
        covered = set(self._names_of_parameters().values()) - {"id"}
        for name, schema in requested.items():
            attribute = attributes.build_requested(self.schemas, name, schema, shown, required)
            covered |= {name, attribute.get("shown", name)}
            yield attribute | ({} if name in self._list_updated() else {"fixed": True})
        yield from attributes.list_shown(self.schemas, shown, covered)

    def _separate_module(self, name: str) -> Json:
        """Return the attribute of a module with a separate path. Responses about the resource omit the module."""
        operations = self._paths[f"{self.item}/{name}"]
        request = self.schemas.request(operations["put"])
        fields = attributes.fields(self.schemas, request, self.schemas.answer(operations["get"]))
        description = self.schemas.description(request)
        return {"name": name, "type": "object", "optional": True, "description": description, "fields": fields}

    def _modules(self) -> list[str]:
        """Return the names of the item's modules: the last segments of paths below the item's path that have a PUT."""
        return [path.rpartition("/")[2] for path in self._list_paths() if "put" in self._paths[path]]

    def _removals(self) -> Json:
        """Return the attributes that a DELETE request can remove, with the last segment of the path of this request."""
        removed = [path.rpartition("/")[2] for path in self._list_paths() if "delete" in self._paths[path]]
        settable = {*self._list_created(), *self._modules()}
        return {name: segment for segment in removed for name in (segment, f"{segment}_id") if name in settable}

    def _list_paths(self) -> list[str]:
        return [path for path in self._paths if re.fullmatch(re.escape(self.item) + r"/[a-z_]+", path)]

    def _find_response(self) -> Json:
        return self.schemas.answer(self._paths[self.path]["post"])

    def _request(self, method: str) -> Json:
        operation = self._paths[self.path if method == "post" else self.item].get(method)
        return self.schemas.request(operation) if operation else {}

    def _list_created(self) -> Json:
        return dict(self._request("post").get("properties", {}))

    def _list_updated(self) -> Json:
        return dict(self._request("patch").get("properties", {}))


def _rename(path: str, names: Mapping[str, str]) -> str:
    return _PARAMETER.sub(lambda match: f"{{{names[match[1]]}}}", path)
