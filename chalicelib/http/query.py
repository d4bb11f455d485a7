"""Query parameters: each has a name and a rule that parses its text."""

from collections.abc import Mapping
from typing import Any

from chalicelib.schema import validation_errors
from chalicelib.schema.rules import After

Parameters = Mapping[str, After]


def check(parameters: Parameters, sent: Mapping[str, list[str]]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of the parameters that were sent, and the validation errors by name."""
    found, wrong = {}, {}
    for name in dict.fromkeys([*(name for name in parameters if name in sent), *sent]):
        try:
            found[name] = _read(parameters, name, sent[name])
        except ValueError as error:
            wrong[validation_errors.dotted([name])] = str(error)
    return found, wrong


def _read(parameters: Parameters, name: str, texts: list[str]) -> Any:
    if len(texts) > 1:
        raise ValueError("must be sent only once")
    if name not in parameters:
        raise ValueError(validation_errors.unknown(parameters))
    return parameters[name].check(texts[0])
