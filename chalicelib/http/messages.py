"""Messages: the body, ids and host of a request, and the JSON and addresses of a response.

JSON is read more strictly than by Python's own reader.
"""

import json
import os
import re
from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

from chalicelib.http.errors import InvalidRequest, MalformedJson, NotFound, PayloadTooLarge, UnsupportedMediaType
from chalicelib.model import kinds
from chalicelib.schema.shapes import Shape, names

S = TypeVar("S", bound=Shape)

MAX_BYTES = 256 * 1024
_OWN_ID = "must be the id in the path, or absent"
_MODULE = "module"
_HOST = re.compile(r"(?:[0-9A-Za-z._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


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


def ref(base_url: str, id: str) -> dict[str, str]:
    """Return a Ref object: a pointer to another resource, whose address is "" if it has none. Raises UnknownKind."""
    kind = kinds.of(id)
    return {"id": id, "uri": f"{base_url}{kind.path}/{id}" if kind.served else ""}


def check_ids(path: str, values: Mapping[str, str]) -> None:
    """Refuse values of a path's variables that are no id of the kind they stand for. Raises NotFound."""
    for variable in re.finditer(r"/\{(\w+)\}", path):
        kind = kinds.at(path[: variable.start()])
        if kind and not kind.has(values[variable[1]]):
            raise NotFound(f"This account has nothing of that id under {kind.path}.")


def base_url(event: Mapping[str, Any]) -> str:
    """Return BASE_URL when set, else the scheme, host and stage path under which the request came; no final slash.

    Raises InvalidRequest for a Host header that is no host.
    """
    if configured := os.environ.get("BASE_URL"):
        return configured.rstrip("/")
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    scheme = "https" if headers.get("x-forwarded-proto", "").partition(",")[0].strip() == "https" else "http"
    host = headers.get("host", "localhost")
    if not is_host(host):  # RFC 9112 asks for a 400; in addresses it would lead anywhere
        raise InvalidRequest.of({"Host": "must be host or host:port"})
    return f"{scheme}://{host}{_stage_path(event)}"


def is_host(text: str) -> bool:
    """Tell whether a text has the form of a host, perhaps with a port."""
    return _HOST.fullmatch(text) is not None


def _object(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise MalformedJson(f"The key {json.dumps(name[:100])} stands twice in one object.")
        found[name] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise MalformedJson(f"{name} is not JSON.")


def _stage_path(event: Mapping[str, Any]) -> str:
    # The gateway's own path starts with the stage, or with the base path of a custom domain; the event's does not.
    full, path = event["requestContext"].get("path", ""), event.get("path", "")
    return str(full.removesuffix(path)).rstrip("/") if path else ""
