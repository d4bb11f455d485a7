"""Bodies: JSON, read more strictly than Python's own reader does, and then in its shape."""

import json
from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

from chalicelib.http.errors import MalformedJson, PayloadTooLarge, UnsupportedMediaType
from chalicelib.schema.shapes import Shape, names

S = TypeVar("S", bound=Shape)

MAX_BYTES = 256 * 1024
_OWN_ID = "must be the id in the path, or absent"
_MODULE = "module"


def parse(raw: bytes, media_type: str) -> dict[str, Any]:
    """Return the JSON object of a body; no body at all is an empty one.

    Raises UnsupportedMediaType, PayloadTooLarge, MalformedJson.
    """
    if not raw:
        return {}
    if media_type.partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaType("Send the body as JSON, with the header 'Content-Type: application/json'.")
    if len(raw) > MAX_BYTES:
        raise PayloadTooLarge(f"The body is larger than {MAX_BYTES} bytes.")
    try:
        return read_object(raw.decode())
    except UnicodeDecodeError:
        raise MalformedJson("The body is not UTF-8.") from None


def read(shape: type[S], values: Mapping[str, Any], path: Mapping[str, str]) -> tuple[S | None, dict[str, str]]:
    """Return the values as an instance of the shape, or the validation errors, as `models.check` does."""
    from chalicelib.schema import models  # with pydantic, which a request without a body does not wait for

    return models.check(shape, values, path)


def changes(shape: type[Shape], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a PATCH sets: null is as good as absent. An unknown field stays, to be refused."""
    known = names(shape)  # type: ignore[arg-type]  # mypy looks for the hash of an instance
    return {name: value for name, value in values.items() if value is not None or name not in known}


def without_ids(
    method: str, template: str, path: Mapping[str, str], values: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a body without the ids that it may repeat of the path, and a validation error for each that differs.

    Some clients do: `id` is of what is changed or replaced, `edge_id` of the edge.
    """
    named = [*path.values()]
    own = {"id": named[-1]} if method in ("PATCH", "PUT") else {}
    if named and template.startswith("/edges/"):
        own["edge_id"] = named[0]
    wrong = {name: _OWN_ID for name, id in own.items() if values.get(name, id) != id}
    return {name: value for name, value in values.items() if name not in own}, wrong


def unwrapped(values: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the module in the body of a PUT, which some clients send as {"module": {…}}, and the prefix of its
    fields' dotted paths: "module." or "".
    """
    if values.keys() == {_MODULE} and isinstance(values[_MODULE], dict):
        return values[_MODULE], f"{_MODULE}."
    return values, ""


def read_object(text: str) -> dict[str, Any]:
    """Return the JSON object that a text is. Raises MalformedJson."""
    try:
        found = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
        if "\\u" in text:  # an escape can name half a character, which nothing behind here could write
            json.dumps(found, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise MalformedJson(f"This is not JSON: {error.msg} at character {error.pos}.") from None
    except UnicodeEncodeError:
        raise MalformedJson("This holds half a character: a surrogate without its pair.") from None
    except (ValueError, RecursionError):
        raise MalformedJson("A number is too long or brackets are too deep to read.") from None
    if not isinstance(found, dict):
        raise MalformedJson("This must be a JSON object.")
    return found


def text(value: Any) -> str:
    """Return JSON as responses carry it: ASCII alone."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _object(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise MalformedJson(f"The key {json.dumps(name[:100])} stands twice in one object.")
        found[name] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise MalformedJson(f"{name} is not JSON.")
