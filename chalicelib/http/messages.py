"""Reading the body, query, ids and host of a request. Writing the JSON and the URLs of a response.

JSON is read more strictly than by Python's own parser: repeated keys, NaN, Infinity and lone surrogates are rejected.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NoReturn, TypeVar

from chalicelib.http.errors import InvalidRequest, MalformedJson, NotFound, PayloadTooLarge, UnsupportedMediaType
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.schema import validation_errors
from chalicelib.schema.rules import After
from chalicelib.schema.shapes import Shape, names

S = TypeVar("S", bound=Shape)
Parameters = Mapping[str, After]  # for each query parameter by name: the rule that parses its text

MAX_BYTES = 256 * 1024
_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_OWN_ID = "must be the id in the path, or absent"
_MODULE = "module"
_HOST = re.compile(r"(?:[0-9A-Za-z._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


def parse(raw: bytes, media_type: str) -> dict[str, Any]:
    """Return the JSON object of a body. No body is an empty object.

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


def read_body(
    shape: type[S], method: str, template: str, path: Mapping[str, str], values: dict[str, Any]
) -> tuple[S | None, dict[str, str], str]:
    """Return the body of a request and its validation errors by dotted path. Also return the prefix of these paths.

    The prefix is "module." if the client has put a module into {"module": {…}}, else "". `template` is the path of the
    endpoint, `path` has the values of its variables.
    """
    values, id_errors = remove_ids(method, template, path, values)
    at = ""
    match method:
        case "PATCH":
            values = changes(shape, values)
        case "PUT":
            values, at = unwrap(values)
    content, errors = read(shape, values, path)
    return content, {**id_errors, **{f"{at}{field}": rule for field, rule in errors.items()}}, at


def read(shape: type[S], values: Mapping[str, Any], path: Mapping[str, str]) -> tuple[S | None, dict[str, str]]:
    """Return the body as an instance of the shape, or the validation errors by dotted path."""
    from chalicelib.schema import models  # imported here, because requests without a body do not need pydantic

    return models.check(shape, values, path)


def check_query(parameters: Parameters, query: Mapping[str, list[str]]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of the parameters that were sent, and the validation errors by name."""
    values, errors = {}, {}
    for name in dict.fromkeys([*(name for name in parameters if name in query), *query]):
        try:
            values[name] = _read_parameter(parameters, name, query[name])
        except ValueError as error:
            errors[validation_errors.join_path([name])] = str(error)
    return values, errors


def _read_parameter(parameters: Parameters, name: str, texts: list[str]) -> Any:
    if len(texts) > 1:
        raise ValueError("must be sent only once")
    if name not in parameters:
        raise ValueError(validation_errors.describe_unknown(parameters))
    return parameters[name].check(texts[0])


def changes(shape: type[Shape], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a PATCH sets. Null fields are removed, because null means "unchanged".

    Unknown fields stay even if they are null, so that validation rejects them.
    """
    field_names = names(shape)  # type: ignore[arg-type]  # mypy looks for the hash of an instance
    return {name: value for name, value in values.items() if value is not None or name not in field_names}


def remove_ids(
    method: str, template: str, path: Mapping[str, str], values: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a body without ids that repeat the path. Ids that differ from the path become validation errors.

    Some clients send the `id` of the resource, and the `edge_id` of its edge.
    """
    path_ids = [*path.values()]
    ids_by_field = {"id": path_ids[-1]} if path_ids and method in ("PATCH", "PUT") else {}
    if path_ids and template.startswith("/edges/"):
        ids_by_field["edge_id"] = path_ids[0]
    errors = {name: _OWN_ID for name, id in ids_by_field.items() if values.get(name, id) != id}
    return {name: value for name, value in values.items() if name not in ids_by_field}, errors


def unwrap(values: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the module in the body of a PUT. Also return the prefix of its fields' dotted paths.

    Some clients send {"module": {…}}: then the prefix is "module.", else "".
    """
    if values.keys() == {_MODULE} and isinstance(values[_MODULE], dict):
        return values[_MODULE], f"{_MODULE}."
    return values, ""


def read_object(text: str) -> dict[str, Any]:
    """Parse a text as a JSON object. Raises MalformedJson."""
    try:
        document = json.loads(text, object_pairs_hook=_build_object, parse_constant=_reject_constant)
        if "\\u" in text:  # a JSON escape can be an unpaired surrogate, which cannot be encoded as UTF-8 later
            json.dumps(document, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise MalformedJson(
            f"The text is not JSON: {error.msg.removesuffix(' at')} at character {error.pos}."
        ) from None
    except UnicodeEncodeError:
        raise MalformedJson("The text contains half of a surrogate pair, which is not a character.") from None
    except (ValueError, RecursionError):
        raise MalformedJson("The text has a number with too many digits, or is nested too deeply.") from None
    if not isinstance(document, dict):
        raise MalformedJson("The text must be a JSON object.")
    return document


def text(value: Any) -> str:
    """Return the compact JSON of responses, in ASCII only."""
    return _ENCODER.encode(value)


def ref(base_url: str, id: str) -> dict[str, str]:
    """Return a Ref, the JSON object that refers to a resource by its id and URL.

    The URL is "" if the API has no path for the kind of the resource. Raises UnknownKind if `id` belongs to no kind.
    """
    kind = kinds.identify(id)
    return {"id": id, "uri": f"{base_url}{kind.path}/{id}" if kind.served else ""}


def check_ids(path: str, values: Mapping[str, str]) -> None:
    """Raise NotFound if a variable of a path is not an id of its kind."""
    for name, kind in _find_kinds(path):
        if not kind.has(values[name]):
            raise NotFound(f"This account has no resource with that id under {kind.path}.")


@cache
def _find_kinds(path: str) -> Sequence[tuple[str, Kind]]:
    """Return the variables of a path that contain an id. Each comes with the kind of resource that the id names."""
    variables = re.finditer(r"/\{(\w+)\}", path)
    pairs = ((variable[1], kinds.find_by_path(path[: variable.start()])) for variable in variables)
    return [(name, kind) for name, kind in pairs if kind]


def base_url(headers: Mapping[str, str], event: Mapping[str, Any]) -> str:
    """Return BASE_URL if it is set, else the scheme, host and stage path of the request. No slash at the end.

    Raises InvalidRequest if the Host header is not a host.
    """
    if url := os.environ.get("BASE_URL"):
        return url.rstrip("/")
    scheme = "https" if headers.get("x-forwarded-proto", "").partition(",")[0].strip() == "https" else "http"
    host = headers.get("host", "localhost")
    # RFC 9112 requires a 400 for a malformed Host header. URLs in the response contain the host.
    if not is_host(host):
        raise InvalidRequest.of({"Host": "must be host or host:port"})
    return f"{scheme}://{host}{_find_stage_path(event)}"


def is_host(text: str) -> bool:
    """Return whether a text has the form of a host, with or without a port."""
    return _HOST.fullmatch(text) is not None


def _build_object(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise MalformedJson(f"The key {json.dumps(name[:100])} occurs twice in one object.")
        members[name] = value
    return members


def _reject_constant(name: str) -> NoReturn:
    raise MalformedJson(f"{name} is not a JSON value.")


def _find_stage_path(event: Mapping[str, Any]) -> str:
    # The path in the request context starts with the stage, or with the base path of a custom domain. The path of the
    # event lacks this prefix.
    full, path = event["requestContext"].get("path", ""), event.get("path", "")
    return str(full.removesuffix(path)).rstrip("/") if path else ""
