"""The schemas of the document: what pydantic says of the shapes' models, under the names of their endpoints.

They say what is meant: in a request what may be left out is never null too, and has no default that a client would send
by itself. Its description tells the default.
"""

import ast
import inspect
import json
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, NoDefault, models_json_schema
from pydantic_core import core_schema

from chalicelib.schema import models
from chalicelib.schema.shapes import Absent, Shape

REF = "#/components/schemas/"
Words = dict[str, Any]  # of JSON Schema
Use = tuple[type[Shape], Any]  # a shape, and "validation" for requests or "serialization" for responses


class _Generator(GenerateJsonSchema):
    """Pydantic's own: no titles, no defaults in responses, null in responses alone, 64 bits in every integer."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:
        return super().get_default_value(schema) if self.mode == "validation" else NoDefault

    def field_is_required(self, field: Any, total: bool) -> bool:
        return super().field_is_required(field, total) and not isinstance(field["schema"].get("default"), Absent)

    def nullable_schema(self, schema: core_schema.NullableSchema) -> Words:
        words: Words = self.generate_inner(schema["schema"])
        return words if self.mode == "validation" else _or_null(words)

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
            if "$ref" in field:  # beside which some generators read nothing
                field["allOf"] = [{"$ref": field.pop("$ref")}]
    return renamed


def of_a_change(words: Words) -> Words:
    """Return a schema as that of a change: without defaults, since what is absent stays."""
    told = {word: value for word, value in words.items() if word != "description"}  # the operation's says it
    return {**told, "properties": {name: _without_default(field) for name, field in words["properties"].items()}}


def with_told_defaults(words: Words) -> Words:
    """Return a schema whose fields tell their defaults in words: generated clients would require or send them."""
    properties = {name: _told_default(field) for name, field in words.get("properties", {}).items()}
    return {**words, **({"properties": properties} if properties else {})}


def with_id(words: Words, id: Words) -> Words:
    """Return a schema with the form of its id."""
    properties = words["properties"]
    return {**words, "properties": {**properties, "id": {**properties["id"], **id}}}


def _told_default(field: Words) -> Words:
    default = field.get("default")
    tells = "efault" in field["description"] or default in (None, "", [], {})
    said = "" if tells else f" Default: `{default if isinstance(default, str) else json.dumps(default)}`."
    return {**_without_default(field), "description": field["description"] + said}


def _without_default(field: Words) -> Words:
    return {word: value for word, value in field.items() if word != "default"}


def _or_null(words: Words) -> Words:
    """Return a schema that null fits too."""
    if "$ref" in words:
        return {"anyOf": [words, {"type": "null"}]}
    values = {"enum": [*words["enum"], None]} if "enum" in words else {}
    return {**words, **values, "type": [words["type"], "null"]}


def _long(words: Words) -> Words:
    """Return a schema with 64-bit integers: some generators of clients take 32 bits otherwise."""
    return {**words, "format": "int64"} if words.get("type") == "integer" else words


def _about(field: Words, made: Mapping[str, Words]) -> str:
    """Return the text of a field that code added to a shape: that of the shape that it holds."""
    choices = [*field.get("anyOf", []), field.get("items", {}), field]
    held = next(made[choice["$ref"].removeprefix(REF)] for choice in choices if "$ref" in choice)
    return f"{held['description']} Null if it is not set." if "anyOf" in field else str(held["description"])


def _own(name: str) -> str:
    return name.replace("-Output", "").replace("-Input", "Replace")


def _renamed(words: Any, names: Mapping[str, str]) -> Any:
    if isinstance(words, list):
        return [_renamed(word, names) for word in words]
    if not isinstance(words, dict):
        return words
    return {key: REF + names[word] if key == "$ref" else _renamed(word, names) for key, word in words.items()}


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
    return {node.name: dict(_beneath(node.body, module)) for node in classes}


def _beneath(body: list[ast.stmt], module: str) -> Iterable[tuple[str, str]]:
    """Yield the fields with the texts beneath them; an f-string names the bounds of the rule, as the module does."""
    for field, text in pairwise(body):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.JoinedStr() | ast.Constant(value=str()) as said),
            ):
                found = eval(compile(ast.Expression(said), module, "eval"), vars(sys.modules[module]))  # noqa: S307
                yield name, inspect.cleandoc(found)
