"""The JSON object in a request's body, read more strictly than Python's own reader does."""

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from chalicelib.api.errors import MalformedJson, PayloadTooLarge, UnsupportedMediaType

MAX_BYTES = 256 * 1024


def parse(raw: bytes, media_type: str) -> dict[str, Any]:
    """The object; no body at all is an empty one. Raises UnsupportedMediaType, PayloadTooLarge, MalformedJson."""
    if not raw:
        return {}
    if media_type.partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaType("Send the body as JSON, with the header 'Content-Type: application/json'.")
    if len(raw) > MAX_BYTES:
        raise PayloadTooLarge(f"The body is larger than {MAX_BYTES} bytes.")
    try:
        body = json.loads(raw.decode(), object_pairs_hook=_object, parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise MalformedJson("The body is not UTF-8.") from None
    except json.JSONDecodeError as error:
        raise MalformedJson(f"The body is not JSON: {error.msg} at character {error.pos}.") from None
    except (ValueError, RecursionError):
        raise MalformedJson("The body holds a number too long or brackets too deep to read.") from None
    if not isinstance(body, dict):
        raise MalformedJson("The body must be a JSON object.")
    return body


def _object(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise MalformedJson(f"The body names the key {json.dumps(name[:100])} twice in one object.")
        found[name] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise MalformedJson(f"The body holds {name}, which is not JSON.")
