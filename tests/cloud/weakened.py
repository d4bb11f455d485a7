"""Policies with one right less, or one limit less: for checks that must fail of each of them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.cloud.evaluator import Statement, each

Policy = tuple[Statement, ...]


def with_less(policy: Policy) -> Iterator[tuple[str, Policy]]:
    """Yield the policy without each of its statements, actions, resources and values of conditions, one at a time."""
    for place, statement in enumerate(policy):
        name = statement["Sid"]
        yield f"{name} is gone", (*policy[:place], *policy[place + 1 :])
        for element in ("Action", "Resource"):
            for value, left in _without_each(statement[element]):
                yield f"{name} lacks {value}", _with(policy, place, {**statement, element: left})
        for operator, key, values in _conditions(statement):
            for value, left in _without_each(values):
                yield f"{name} lacks {value} of {key}", _with(policy, place, _when(statement, operator, key, left))


def with_more(policy: Policy) -> Iterator[tuple[str, Policy]]:
    """Yield the policy without each limit: all actions of a service, any resource, no condition, any value."""
    for place, statement in enumerate(policy):
        name = statement["Sid"]
        services = {action.partition(":")[0] for action in each(statement["Action"])}
        yield f"{name} of any action", _with(policy, place, {**statement, "Action": [f"{it}:*" for it in services]})
        if statement["Resource"] != "*":
            yield f"{name} of any resource", _with(policy, place, {**statement, "Resource": "*"})
        for operator, key, values in _conditions(statement):
            yield f"{name} without {operator} {key}", _with(policy, place, _when(statement, operator, key, None))
            for value, left in _without_each(values, fewest=0) if "Like" in operator else ():
                if (wider := _wider(value)) != value:
                    more = _when(statement, operator, key, [*left, wider])
                    yield f"{name} of more than {value}", _with(policy, place, more)


def _wider(pattern: str) -> str:
    """Return a pattern of more: of all ARNs, of all that an account has, of anything."""
    if pattern.startswith("arn:"):
        return "arn:*:*:*:*:*"
    return f"{pattern.partition('#')[0]}#*" if "#/" in pattern else "*"


def _without_each(values: Any, *, fewest: int = 1) -> Iterator[tuple[Any, list[Any]]]:
    found = each(values)
    for place, value in enumerate(found):
        if len(found) > fewest:
            yield value, [*found[:place], *found[place + 1 :]]


def _conditions(statement: Statement) -> Iterable[tuple[str, str, Any]]:
    for operator, keys in statement.get("Condition", {}).items():
        for key, values in keys.items():
            yield operator, key, values


def _when(statement: Statement, operator: str, key: str, values: Any) -> Statement:
    """Return a statement whose condition has other values, or is gone."""
    conditions: Mapping[str, Any] = statement["Condition"]
    others = {name: value for name, value in conditions[operator].items() if name != key}
    changed = {**conditions, operator: others if values is None else {**others, key: values}}
    return {**statement, "Condition": changed}


def _with(policy: Policy, place: int, statement: Statement) -> Policy:
    return (*policy[:place], statement, *policy[place + 1 :])
