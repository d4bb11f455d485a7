"""Converts values of attributes from responses and for requests, and compares their meaning.

A number with a fraction is stored as the text that Terraform sends, because a binary fraction would change it.
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
        return [it["id"] for it in value]
    if attribute.type == "object":
        return object_from_answer(attribute.fields, value)
    if attribute.type == "objects":
        return [object_from_answer(attribute.fields, it) for it in value]
    return json.dumps(value, sort_keys=True) if attribute.type == "json" else _written(value)


def object_from_answer(attributes: Iterable[Attribute], answer: Mapping[str, Any]) -> State:
    """Return the values of attributes from an object in a response."""
    return {it.name: from_answer(it, answer) for it in attributes}


def to_request(attribute: Attribute, value: Any) -> Any:
    """Return the value of an attribute for a request. In objects, attributes that are null or unknown are left out."""
    if attribute.type == "object":
        return object_to_request(attribute.fields, value)
    if attribute.type == "objects":
        return [object_to_request(attribute.fields, it) for it in value]
    if attribute.type == "json":
        return _json_of(attribute, value)
    if attribute.type == "map":
        return {key: _parsed(attribute.of, it) for key, it in value.items()}
    return _parsed(attribute.type, value)


def _json_of(attribute: Attribute, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{attribute.name} must be a JSON text, for example jsonencode({{…}}): {error}.") from None


def object_to_request(attributes: Iterable[Attribute], values: Mapping[str, Any]) -> State:
    """Return an object for a request. Values that are null or unknown are left out."""
    found = ((it, values.get(it.name)) for it in attributes)
    return {it.name: to_request(it, value) for it, value in found if value is not None and value is not UNKNOWN}


def refresh(attribute: Attribute, before: Any, answered: Any) -> Any:
    """Return the value to store after a read. Keep the previous value if the response means the same or hides it."""
    if attribute.hidden or (attribute.sensitive and answered in (None, "")):
        return before
    if attribute.type == "object" and isinstance(before, dict) and isinstance(answered, dict):
        return {it.name: refresh(it, before.get(it.name), answered.get(it.name)) for it in attribute.fields}
    if attribute.type == "objects" and isinstance(before, list) and isinstance(answered, list):
        paired = [*before[: len(answered)], *({} for _ in answered[len(before) :])]
        as_object = Attribute(attribute.name, "object", fields=attribute.fields)
        return [refresh(as_object, old, new) for old, new in zip(paired, answered, strict=True)]
    return before if before is not None and means_the_same(attribute, before, answered) else answered


def complete(planned: Any, answered: Any) -> Any:
    """Return the planned value. Its unknown parts are replaced by values from the response."""
    if planned is UNKNOWN:
        return answered
    if isinstance(planned, dict) and isinstance(answered, dict):
        return {key: complete(value, answered.get(key)) for key, value in planned.items()}
    if isinstance(planned, list) and isinstance(answered, list) and len(planned) == len(answered):
        return [complete(old, new) for old, new in zip(planned, answered, strict=True)]
    return _known(planned)


def _known(planned: Any) -> Any:
    """Replace the unknown parts of a planned value by null, because the response does not contain them."""
    if isinstance(planned, dict):
        return {key: _known(value) for key, value in planned.items()}
    if isinstance(planned, list):
        return [_known(value) for value in planned]
    return None if planned is UNKNOWN else planned


def means_the_same(attribute: Attribute, one: Any, other: Any) -> bool:
    """Return whether two values of an attribute have the same meaning for the API."""
    if one is UNKNOWN or other is UNKNOWN:
        return one is other
    if one in _NOTHING and other in _NOTHING:
        return True
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same_form(attribute), one, other))
    if attribute.type == "json":
        return _same(_parse_json, one, other)
    if attribute.type == "number" or (isinstance(one, int | float) and not isinstance(one, bool)):
        return _same(float, one, other)
    return _same_form(attribute)(one, other)


def _same_form(attribute: Attribute) -> Callable[[Any, Any], bool]:
    normalise = _FORMS.get(attribute.format, str)
    return lambda one, other: (
        one == other or (isinstance(one, str) and isinstance(other, str) and _same(normalise, one, other))
    )


def _same(normalise: Callable[[Any], Any], one: Any, other: Any) -> bool:
    try:
        return bool(normalise(one) == normalise(other))
    except (TypeError, ValueError, UnsupportedAlgorithm):
        return False


def _parse_json(text: str) -> Any:
    return json.loads(text)


def _pem(text: str) -> list[bytes]:
    """Return the bytes of each block in a PEM text."""
    blocks = [it.partition("-----END")[0].partition("-----")[2] for it in text.split("-----BEGIN")[1:]]
    return [base64.b64decode("".join(it.split())) for it in blocks]


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


def _written(value: Any) -> Any:
    """Return a value in which numbers with a fraction are texts."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else repr(value)
    if isinstance(value, dict):
        return {key: _written(it) for key, it in value.items()}
    return [_written(it) for it in value] if isinstance(value, list) else value


def _parsed(type_name: str, value: Any) -> Any:
    """Return the number in a text if the type is "number". Return other values unchanged."""
    if type_name != "number" or not isinstance(value, str):
        return value
    number = float(value)
    return int(number) if number.is_integer() else number
