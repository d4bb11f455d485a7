"""The schemas of the document: what pydantic says of the shapes' models, under the names of their endpoints."""

import ast
import inspect
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

import jsonschema_rs
from pydantic.json_schema import GenerateJsonSchema, NoDefault, models_json_schema
from pydantic_core import core_schema

from chalicelib.schema import models
from chalicelib.schema.json_schema import either
from chalicelib.schema.shapes import Shape

REF = "#/components/schemas/"
Words = dict[str, Any]  # of JSON Schema
Mode = str  # "validation" for requests, "serialization" for responses
Use = tuple[type[Shape], Any]  # a shape and its mode


class _Generator(GenerateJsonSchema):
    """Pydantic's own: no titles, no defaults in responses, maps and integers as clients understand them."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:
        return super().get_default_value(schema) if self.mode == "validation" else NoDefault

    def int_schema(self, schema: core_schema.IntSchema) -> Words:
        return _long(super().int_schema(schema))

    def literal_schema(self, schema: core_schema.LiteralSchema) -> Words:
        return _long(super().literal_schema(schema))

    def dict_schema(self, schema: core_schema.DictSchema) -> Words:
        words: Words = super().dict_schema(schema)
        if values := words.pop("patternProperties", None):
            keys = self.generate_inner(schema["keys_schema"])
            words["propertyNames"] = {name: word for name, word in keys.items() if name != "type"}
            words["additionalProperties"] = next(iter(values.values()))
        return words

    def model_schema(self, schema: core_schema.ModelSchema) -> Words:
        words: Words = super().model_schema(schema)
        del words["title"]
        described = _texts(schema["cls"])
        for name, field in words.get("properties", {}).items():
            if told := [*filter(None, (described.get(name.replace("-", "_")), field.get("description")))]:
                field["description"] = " ".join(told)
            if "default" in field and not _may_be(field["default"], field):
                del field["default"]
        words.pop("description", None)
        doc = schema["cls"].__bases__[1].__doc__  # the shape's: the model has none of its own
        return {**({"description": inspect.cleandoc(doc)} if doc else {}), **words}


def of(uses: Mapping[Use, str]) -> dict[str, Words]:
    """Return the schemas of the shapes under these names, and of the shapes within them under their own."""
    pairs: Any = [(models.model(shape), mode) for shape, mode in uses]
    refs, made = models_json_schema(pairs, ref_template="{model}", schema_generator=_Generator)
    wanted = {refs[models.model(shape), mode]["$ref"]: name for (shape, mode), name in uses.items()}
    names = {name: wanted.get(name) or _own(name) for name in made.get("$defs", {})}
    renamed = {names[name]: _renamed(words, names) for name, words in made["$defs"].items()}
    for words in renamed.values():
        for field in words.get("properties", {}).values():
            field["description"] = field.get("description") or _about(field, renamed)
    return renamed


def of_a_change(words: Words, id: Words) -> Words:
    """Return a schema as that of a change: without defaults, since what is absent or null stays, and with the id."""
    properties = {name: _or_null(field) for name, field in words["properties"].items()}
    told = {word: value for word, value in words.items() if word != "description"}  # the operation's says it
    return {**told, "properties": {"id": id, **properties}}


def with_id(words: Words, id: Words) -> Words:
    """Return a schema with the form of its id."""
    properties = words["properties"]
    return {**words, "properties": {**properties, "id": {**properties["id"], **id}}}


def _or_null(field: Words) -> Words:
    """Return the schema of a field that null leaves as it is."""
    told = {word: value for word, value in field.items() if word == "description"}
    return {
        **either({word: value for word, value in field.items() if word not in ("default", *told)}, (None,)),
        **told,
    }


def _long(words: Words) -> Words:
    """Return a schema with 64-bit integers: some generators of clients take 32 bits otherwise."""
    return {**words, "format": "int64"} if words.get("type") == "integer" else words


def _about(field: Words, made: Mapping[str, Words]) -> str:
    """Return the text of a field that code added to a shape: that of the shape that it holds."""
    choices = [*field.get("anyOf", []), field.get("items", {}), field]
    held = next(made[choice["$ref"].removeprefix(REF)] for choice in choices if "$ref" in choice)
    return f"{held['description']} Null where it is unset." if "anyOf" in field else str(held["description"])


def _own(name: str) -> str:
    return name.replace("-Output", "").replace("-Input", "Replace")


def _renamed(words: Any, names: Mapping[str, str]) -> Any:
    if isinstance(words, list):
        return [_renamed(word, names) for word in words]
    if not isinstance(words, dict):
        return words
    return {key: REF + names[word] if key == "$ref" else _renamed(word, names) for key, word in words.items()}


def _may_be(value: Any, words: Words) -> bool:
    """Tell whether a client could send a default: some only say what absence means, and generators drop objects."""
    return not isinstance(value, dict) and ("$ref" in str(words) or jsonschema_rs.is_valid(words, value))


def _texts(shape: type) -> dict[str, str]:
    """Return the text beneath each field of a shape, of the most derived class that has one."""
    found: dict[str, str] = {}
    for base in reversed(shape.__mro__):
        found |= _in_source(base.__module__).get(base.__qualname__, {})
    return found


@cache
def _in_source(module: str) -> dict[str, dict[str, str]]:
    """Return the text beneath each field of each class in a module's source: Python itself does not keep it."""
    tree = ast.parse(inspect.getsource(sys.modules[module])) if module.startswith("chalicelib") else ast.parse("")
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return {node.name: dict(_beneath(node.body)) for node in classes}


def _beneath(body: list[ast.stmt]) -> Iterable[tuple[str, str]]:
    for field, text in pairwise(body):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(said))),
            ):
                yield name, inspect.cleandoc(said)
