"""Reads schemas from the OpenAPI document, and replaces references by the schemas to which they point."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Schemas:
    """An OpenAPI document, with the schemas of requests and answers of its operations."""

    document: Mapping[str, Any]

    @property
    def paths(self) -> Mapping[str, Any]:
        paths: Mapping[str, Any] = self.document["paths"]
        return paths

    def request(self, operation: Mapping[str, Any]) -> Json:
        """Return the schema of a request's body."""
        return self.resolve(operation["requestBody"]["content"]["application/json"]["schema"])

    def answer(self, operation: Mapping[str, Any]) -> Json:
        """Return the schema of the successful answer."""
        answer = next(value for status, value in operation["responses"].items() if status.startswith("2"))
        return self.resolve(self.resolve(answer)["content"]["application/json"]["schema"])

    def resolve(self, value: Mapping[str, Any]) -> Json:
        """Return a schema with its references resolved, and without null."""
        value = {**value, **{key: text for key, text in value.items() if key == "description"}}
        for variants in ("allOf", "anyOf"):
            if chosen := [variant for variant in value.get(variants, ()) if variant.get("type") != "null"]:
                rest = {key: entry for key, entry in value.items() if key != variants}
                return {**self.resolve(chosen[0]), **rest}
        if "$ref" not in value:
            return value
        target: Any = self.document
        for part in value["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return {**self.resolve(target), **{key: entry for key, entry in value.items() if key != "$ref"}}

    @staticmethod
    def type_of(schema: Mapping[str, Any]) -> str:
        """Return the type of a resolved schema. If null is permitted too, return the other type."""
        named = schema.get("type", "object")
        return str(named if isinstance(named, str) else next(name for name in named if name != "null"))

    @staticmethod
    def is_nullable(schema: Mapping[str, Any]) -> bool:
        named = schema.get("type")
        return (isinstance(named, list) and "null" in named) or any(
            variant.get("type") == "null" for variant in schema.get("anyOf", ())
        )

    @staticmethod
    def description(schema: Mapping[str, Any]) -> str:
        """Return the first paragraph of a description, in one line."""
        return " ".join(str(schema.get("description", "")).partition("\n\n")[0].split())
