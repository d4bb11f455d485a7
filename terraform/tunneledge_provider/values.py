"""Converts values of attributes from responses and for requests, and compares their meaning.

A number with a fraction is stored as the decimal text from Terraform, because a binary float would change the number.
"""

import base64
import ipaddress
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from tunneledge_provider.kinds import Attribute

State = dict[str, Any]


class _Unknown:
    """A value that is unknown until the change is applied."""

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __deepcopy__(self, memo: object) -> "_Unknown":
        return self


UNKNOWN = _Unknown()
_NOTHING: tuple[Any, ...] = (None, "", [], {}, False)  # values by which the API shows that an attribute is not set


def from_answer(attribute: Attribute, answer: Mapping[str, Any]) -> Any:
    """Return the value of an attribute from an object in a response."""
    value = answer.get(attribute.shown)
    if value is None:
        return None
    if attribute.form == "id":
        return value["id"]
    if attribute.form == "ids":
        return [element["id"] for element in value]
    if attribute.type == "object":
        return object_from_answer(attribute.fields, value)
    if attribute.type == "objects":
        return [object_from_answer(attribute.fields, element) for element in value]
    return json.dumps(value, sort_keys=True) if attribute.type == "json" else _normalize_numbers(value)


def object_from_answer(attributes: Iterable[Attribute], answer: Mapping[str, Any]) -> State:
    """Return the values of attributes from an object in a response."""
    return {attribute.name: from_answer(attribute, answer) for attribute in attributes}


def to_request(attribute: Attribute, value: Any) -> Any:
    """Return the value of an attribute for a request. In objects, attributes that are null or unknown are left out."""
    if attribute.type == "object":
        return object_to_request(attribute.fields, value)
    if attribute.type == "objects":
        return [object_to_request(attribute.fields, element) for element in value]
    if attribute.type == "json":
        return _json_of(attribute, value)
    if attribute.type == "map":
        return {key: _parse(attribute.of, entry) for key, entry in value.items()}
    return _parse(attribute.type, value)


def _json_of(attribute: Attribute, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{attribute.name} must be a JSON text, for example jsonencode({{…}}): {error}.") from None


def object_to_request(attributes: Iterable[Attribute], values: Mapping[str, Any]) -> State:
    """Return an object for a request. Values that are null or unknown are left out."""
    pairs = ((attribute, values.get(attribute.name)) for attribute in attributes)
    return {
        attribute.name: to_request(attribute, value)
        for attribute, value in pairs
        if value is not None and value is not UNKNOWN
    }


def refresh(attribute: Attribute, before: Any, answered: Any) -> Any:
    """Return the value to store after a read. Keep the previous value if the response means the same or hides it."""
    if attribute.hidden or (attribute.sensitive and answered in (None, "")):
        return before
    if attribute.type == "object" and isinstance(before, dict) and isinstance(answered, dict):
        return {
            field.name: refresh(field, before.get(field.name), answered.get(field.name)) for field in attribute.fields
        }
    if attribute.type == "objects" and isinstance(before, list) and isinstance(answered, list):
        paired = [*before[: len(answered)], *({} for _ in answered[len(before) :])]
        as_object = Attribute(attribute.name, "object", fields=attribute.fields)
        return [refresh(as_object, previous, current) for previous, current in zip(paired, answered, strict=True)]
    return before if before is not None and means_the_same(attribute, before, answered) else answered


def complete(planned: Any, answered: Any) -> Any:
    """Return the planned value. Its unknown parts are replaced by values from the response."""
    if planned is UNKNOWN:
        return answered
    if isinstance(planned, dict) and isinstance(answered, dict):
        return {key: complete(value, answered.get(key)) for key, value in planned.items()}
    if isinstance(planned, list) and isinstance(answered, list) and len(planned) == len(answered):
        return [complete(element, answer) for element, answer in zip(planned, answered, strict=True)]
    return _without_unknown(planned)


def _without_unknown(planned: Any) -> Any:
    """Replace the unknown parts of a planned value by null, because the response does not contain them."""
    if isinstance(planned, dict):
        return {key: _without_unknown(value) for key, value in planned.items()}
    if isinstance(planned, list):
        return [_without_unknown(value) for value in planned]
    return None if planned is UNKNOWN else planned


def means_the_same(attribute: Attribute, first: Any, second: Any) -> bool:
    """Return whether two values of an attribute have the same meaning for the API."""
    if first is UNKNOWN or second is UNKNOWN:
        return first is second
    if first in _NOTHING and second in _NOTHING:
        return True
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_build_comparison(attribute), first, second))
    if attribute.type == "json":
        return _are_equal_in_form(_parse_json, first, second)
    if attribute.type == "number" or (isinstance(first, int | float) and not isinstance(first, bool)):
        return _are_equal_in_form(float, first, second)
    return _build_comparison(attribute)(first, second)


def _build_comparison(attribute: Attribute) -> Callable[[Any, Any], bool]:
    normalise = _FORMS.get(attribute.format, str)
    return lambda first, second: (
        first == second
        or (isinstance(first, str) and isinstance(second, str) and _are_equal_in_form(normalise, first, second))
    )


def _are_equal_in_form(normalise: Callable[[Any], Any], first: Any, second: Any) -> bool:
    try:
        return bool(normalise(first) == normalise(second))
    except (TypeError, ValueError, UnsupportedAlgorithm):
        return False


def _parse_json(text: str) -> Any:
    return json.loads(text)


def _pem(text: str) -> list[bytes]:
    """Return the bytes of each block in a PEM text."""
    blocks = [block.partition("-----END")[0].partition("-----")[2] for block in text.split("-----BEGIN")[1:]]
    return [base64.b64decode("".join(block.split())) for block in blocks]


def _time(text: str) -> datetime:
    """Return a time in UTC, without its fraction of a second."""
    time = datetime.fromisoformat(text)
    return time.replace(microsecond=0, tzinfo=time.tzinfo or UTC).astimezone(UTC)


def _network(text: str) -> object:
    network = ipaddress.ip_network(text)
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    return ipaddress.ip_network(f"{mapped}/{network.prefixlen - 96}") if mapped and network.prefixlen >= 96 else network


def _public_key(text: str) -> list[str]:
    """Parse a public key in OpenSSH's format or in PEM. Return its type and its key in base64, without comment."""
    if "-----BEGIN" in text:
        key = serialization.load_pem_public_key(text.strip().encode())
        text = key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    return text.split()[:2]


def _host(text: str) -> str:
    return text.lower().removesuffix(".")


_FORMS: Mapping[str, Callable[[str], Any]] = {
    "host": _host,
    "key": _public_key,
    "network": _network,
    "pem": _pem,
    "time": _time,
}


def _normalize_numbers(value: Any) -> Any:
    """Return a value in which numbers with a fraction are texts."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else repr(value)
    if isinstance(value, dict):
        return {key: _normalize_numbers(entry) for key, entry in value.items()}
    return [_normalize_numbers(element) for element in value] if isinstance(value, list) else value


def _parse(type_name: str, value: Any) -> Any:
    """Return the number in a text if the type is "number". Return other values unchanged."""
    if type_name != "number" or not isinstance(value, str):
        return value
    number = float(value)
    return int(number) if number.is_integer() else number
