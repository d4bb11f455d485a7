"""Schemas of the OpenAPI document, which pydantic makes from the shapes: the classes of requests and responses.

Optional fields of a request are not nullable and have no `default`, because generated clients would send the default.
The description of a field mentions its default.
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
Words = dict[str, Any]  # JSON Schema
Use = tuple[type[Shape], Any]  # the class of a body, and "validation" for a request or "serialization" for a response


class NoDescription(Exception):
    """A field of a request or response class has no docstring below it. The message names the field."""


class _Generator(GenerateJsonSchema):
    """Pydantic's generator without titles.

    Only schemas of requests have defaults. Only schemas of responses allow null. Integers have 64 bits.
    """

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:
        return super().get_default_value(schema) if self.mode == "validation" else NoDefault

    def field_is_required(self, field: Any, total: bool) -> bool:
        return super().field_is_required(field, total) and not isinstance(field["schema"].get("default"), Absent)

    def nullable_schema(self, schema: core_schema.NullableSchema) -> Words:
        words: Words = self.generate_inner(schema["schema"])
        return words if self.mode == "validation" else _permit_null(words)

    def int_schema(self, schema: core_schema.IntSchema) -> Words:
        return _mark_long(super().int_schema(schema))

    def literal_schema(self, schema: core_schema.LiteralSchema) -> Words:
        return _mark_long(super().literal_schema(schema))

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
            if texts := [*filter(None, (described.get(name.replace("-", "_")), field.get("description")))]:
                field["description"] = " ".join(texts)
        words.pop("description", None)
        # pydantic's model has no docstring, so take the docstring of the class for which it was made
        doc = schema["cls"].__bases__[1].__doc__
        return {**({"description": inspect.cleandoc(doc)} if doc else {}), **words}


def of(uses: Mapping[Use, str]) -> dict[str, Words]:
    """Return the schemas of request and response classes by name, including the schemas of nested classes."""
    pairs: Any = [(models.model(shape), mode) for shape, mode in uses]
    refs, document = models_json_schema(pairs, ref_template="{model}", schema_generator=_Generator)
    requested_names = {refs[models.model(shape), mode]["$ref"]: name for (shape, mode), name in uses.items()}
    names = {name: requested_names.get(name) or _name_nested(name) for name in document.get("$defs", {})}
    definitions = {names[name]: _rename_references(words, names) for name, words in document["$defs"].items()}
    for shape, words in definitions.items():
        for name, field in words.get("properties", {}).items():
            field["description"] = field.get("description") or _find_description(f"{shape}.{name}", field, definitions)
            if "$ref" in field:  # some generators would ignore the description beside $ref
                field["allOf"] = [{"$ref": field.pop("$ref")}]
    return definitions


def build_change(words: Words) -> Words:
    """Return the schema of an update's request: without defaults, since absent fields stay unchanged."""
    # the operation has a description, so the schema needs none
    keywords = {word: value for word, value in words.items() if word != "description"}
    return {**keywords, "properties": {name: _remove_default(field) for name, field in words["properties"].items()}}


def describe_defaults(words: Words) -> Words:
    """Move defaults into the descriptions of fields.

    Some generated clients would send the value of `default`, and others would require the field.
    """
    properties = {name: _describe_default(field) for name, field in words.get("properties", {}).items()}
    return {**words, **({"properties": properties} if properties else {})}


def restrict_id(words: Words, id: Words) -> Words:
    """Return the schema of a response, with the keywords of the schema `id` added to its field `id`."""
    properties = words["properties"]
    return {**words, "properties": {**properties, "id": {**properties["id"], **id}}}


def _describe_default(field: Words) -> Words:
    default = field.get("default")
    is_described = "efault" in field["description"] or default in (None, "", [], {})
    text = "" if is_described else f" Default: `{default if isinstance(default, str) else json.dumps(default)}`."
    return {**_remove_default(field), "description": field["description"] + text}


def _remove_default(field: Words) -> Words:
    return {word: value for word, value in field.items() if word != "default"}


def _permit_null(words: Words) -> Words:
    """Return a schema that also accepts null."""
    if "$ref" in words:
        return {"anyOf": [words, {"type": "null"}]}
    values = {"enum": [*words["enum"], None]} if "enum" in words else {}
    return {**words, **values, "type": [words["type"], "null"]}


def _mark_long(words: Words) -> Words:
    """Add the format int64 to an integer schema: without it, some client generators use 32 bits."""
    return {**words, "format": "int64"} if words.get("type") == "integer" else words


def _find_description(path: str, field: Words, definitions: Mapping[str, Words]) -> str:
    """Return the description of a field without docstring: the docstring of the class of its value.

    Raises NoDescription.
    """
    choices = [*field.get("anyOf", []), field.get("items", {}), field]
    shape = next((definitions[choice["$ref"].removeprefix(REF)] for choice in choices if "$ref" in choice), {})
    if "description" not in shape:
        raise NoDescription(f"The field {path} has no description: add a docstring below the field in its class.")
    return f"{shape['description']} Null if unset." if "anyOf" in field else str(shape["description"])


def _name_nested(name: str) -> str:
    return name.replace("-Output", "").replace("-Input", "Replace")


def _rename_references(words: Any, names: Mapping[str, str]) -> Any:
    if isinstance(words, list):
        return [_rename_references(word, names) for word in words]
    if not isinstance(words, dict):
        return words
    return {key: REF + names[word] if key == "$ref" else _rename_references(word, names) for key, word in words.items()}


def _texts(shape: type) -> dict[str, str]:
    """Return the docstrings of the fields of a class, including the docstrings in its base classes."""
    texts: dict[str, str] = {}
    for base in reversed(shape.__mro__):
        texts |= _field_docstrings(base.__module__).get(base.__qualname__, {})
    return texts


@cache
def _field_docstrings(module: str) -> dict[str, dict[str, str]]:
    """Return the docstrings of fields by class, from a module's source. Python itself drops them."""
    tree = ast.parse(inspect.getsource(sys.modules[module])) if module.startswith("chalicelib") else ast.parse("")
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return {node.name: dict(_docstrings(node.body, module)) for node in classes}


def _docstrings(body: list[ast.stmt], module: str) -> Iterable[tuple[str, str]]:
    """Yield fields with their docstrings. An f-string is evaluated with the module's constants."""
    for field, text in pairwise(body):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.JoinedStr() | ast.Constant(value=str()) as docstring),
            ):
                code = compile(ast.Expression(docstring), module, "eval")
                yield name, inspect.cleandoc(eval(code, vars(sys.modules[module])))  # noqa: S307
