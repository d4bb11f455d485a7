"""Whether IAM policies allow a call, by the rules that AWS publishes: for the parts of the language that are used here.

Whatever it does not know is an error: an operator, a policy variable, a condition on a key that the service does not
set. Tried against the published examples in test_evaluator.py.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

Statement = Mapping[str, Any]
Context = Mapping[str, str | Sequence[str]]  # a sequence where the key has several values

_ELEMENTS = {"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition"}


@dataclass(frozen=True)
class Call:
    """A request to IAM: an action on the resource with an ARN, and the condition keys."""

    action: str
    resource: str
    context: Context = field(default_factory=dict)


def allows(call: Call, *layers: Iterable[Statement]) -> bool:
    """Tell whether each layer (policy, boundary) allows a call, and none denies it. Raises NotImplementedError."""
    each_layer = [list(layer) for layer in layers]
    if any(_matches(statement, call) for layer in each_layer for statement in layer if statement["Effect"] == "Deny"):
        return False
    return all(
        any(_matches(statement, call) for statement in layer if statement["Effect"] == "Allow") for layer in each_layer
    )


def each(value: Any) -> list[Any]:
    """Return the list that a policy may write as its only member."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _matches(statement: Statement, call: Call) -> bool:
    if unknown := statement.keys() - _ELEMENTS:
        raise NotImplementedError(f"{unknown} in {statement}")
    return (
        _names(statement, "Action", call.action.lower(), str.lower)
        and _names(statement, "Resource", call.resource, str)
        and all(
            _holds(operator, call.context, key, each(values))
            for operator, keys in statement.get("Condition", {}).items()
            for key, values in keys.items()
        )
    )


def _names(statement: Statement, element: str, value: str, folded: Callable[[str], str]) -> bool:
    """Tell whether an element, or its opposite, names a value."""
    if element in statement:
        return any(_like(value, folded(pattern)) for pattern in each(statement[element]))
    return not any(_like(value, folded(pattern)) for pattern in each(statement[f"Not{element}"]))


def _holds(operator: str, context: Context, key: str, operands: list[str]) -> bool:
    """Tell whether one operator holds of one key."""
    present = {name.lower(): value for name, value in context.items()}.get(key.lower())
    if operator == "Null":
        return (present is None) == (operands == ["true"])
    quantifier, _, name = operator.rpartition(":")
    if_exists = name.endswith("IfExists")
    compare = _COMPARISONS.get(name.removesuffix("IfExists"))
    if compare is None or quantifier not in ("", "ForAllValues", "ForAnyValue"):
        raise NotImplementedError(operator)
    negated = "Not" in name
    if present is None:
        return if_exists or quantifier == "ForAllValues" or (negated and not quantifier)
    if not quantifier and not isinstance(present, str):
        raise NotImplementedError(
            f"{operator} of {key}, which has several values: it needs ForAllValues or ForAnyValue"
        )
    matches = [any(compare(value, operand) for operand in operands) != negated for value in each(present)]
    return any(matches) if quantifier == "ForAnyValue" else all(matches)


def _like(value: str, pattern: str) -> bool:
    """Match as IAM does: `*` stands for any text and `?` for one character, nothing else is special."""
    return _compile(pattern).fullmatch(value) is not None


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    if "${" in pattern:
        raise NotImplementedError(f"the variable in {pattern}")
    wild = {"*": ".*", "?": "."}
    return re.compile("".join(wild.get(character, re.escape(character)) for character in pattern), re.DOTALL)


def _arn_like(value: str, pattern: str) -> bool:
    """Match ARNs: each of the six parts by itself, so that no `*` spans two of them."""
    parts, patterns = value.split(":", 5), pattern.split(":", 5)
    return len(parts) == len(patterns) == 6 and all(map(_like, parts, patterns))


def _same(value: str, other: str) -> bool:
    return value == other


def _same_ignoring_case(value: str, other: str) -> bool:
    return value.lower() == other.lower()


_COMPARISONS: Mapping[str, Callable[[str, str], bool]] = {
    "ArnEquals": _arn_like,
    "ArnLike": _arn_like,
    "ArnNotEquals": _arn_like,
    "ArnNotLike": _arn_like,
    "Bool": _same_ignoring_case,
    "StringEquals": _same,
    "StringEqualsIgnoreCase": _same_ignoring_case,
    "StringLike": _like,
    "StringNotEquals": _same,
    "StringNotLike": _like,
}
