"""The parameters of a query: each a name and the rule that reads its text."""

from collections.abc import Mapping
from typing import Any

from chalicelib.api import faults
from chalicelib.api.rules import Check

Parameters = Mapping[str, Check]


def check(parameters: Parameters, given: Mapping[str, list[str]]) -> tuple[dict[str, Any], dict[str, str]]:
    """What was read of the parameters that were given, and what would be right for each that is wrong."""
    found, wrong = {}, {}
    for name in dict.fromkeys([*(name for name in parameters if name in given), *given]):
        try:
            found[name] = _read(parameters, name, given[name])
        except ValueError as error:
            wrong[faults.dotted([name])] = str(error)
    return found, wrong


def _read(parameters: Parameters, name: str, texts: list[str]) -> Any:
    if len(texts) > 1:
        raise ValueError("must be given once")
    if name not in parameters:
        raise ValueError(faults.unknown(parameters))
    return parameters[name].check(texts[0])
