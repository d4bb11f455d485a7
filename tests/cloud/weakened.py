"""Policies with one right less, or one limit less: for checks that must fail of each of them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.cloud.evaluator import Statement, each

Policy = tuple[Statement, ...]


def with_less(policy: Policy) -> Iterator[tuple[str, Policy]]:
    """Yield the policy without each of its statements, actions, resources and values of conditions, one at a time."""
    for index, statement in enumerate(policy):
        name = statement["Sid"]
        yield f"{name} is gone", (*policy[:index], *policy[index + 1 :])
        for element in ("Action", "Resource"):
            for value, rest in _without_each(statement[element]):
                yield f"{name} lacks {value}", _with(policy, index, {**statement, element: rest})
        for operator, key, values in _conditions(statement):
            for value, rest in _without_each(values):
                yield f"{name} lacks {value} of {key}", _with(policy, index, _when(statement, operator, key, rest))


def with_more(policy: Policy) -> Iterator[tuple[str, Policy]]:
    """Yield the policy without each limit: all actions of a service, any resource, no condition, any value."""
    for index, statement in enumerate(policy):
        name = statement["Sid"]
        services = {action.partition(":")[0] for action in each(statement["Action"])}
        yield (
            f"{name} of any action",
            _with(policy, index, {**statement, "Action": [f"{service}:*" for service in services]}),
        )
        if statement["Resource"] != "*":
            yield f"{name} of any resource", _with(policy, index, {**statement, "Resource": "*"})
        for operator, key, values in _conditions(statement):
            yield f"{name} without {operator} {key}", _with(policy, index, _when(statement, operator, key, None))
            for value, rest in _without_each(values, fewest=0) if "Like" in operator else ():
                if (wider := _wider(value)) != value:
                    more = _when(statement, operator, key, [*rest, wider])
                    yield f"{name} of more than {value}", _with(policy, index, more)


def _wider(pattern: str) -> str:
    """Return a pattern of more: of all ARNs, of all that an account has, of anything."""
    if pattern.startswith("arn:"):
        return "arn:*:*:*:*:*"
    return f"{pattern.partition('#')[0]}#*" if "#/" in pattern else "*"


def _without_each(values: Any, *, fewest: int = 1) -> Iterator[tuple[Any, list[Any]]]:
    all_values = each(values)
    for index, value in enumerate(all_values):
        if len(all_values) > fewest:
            yield value, [*all_values[:index], *all_values[index + 1 :]]


def _conditions(statement: Statement) -> Iterable[tuple[str, str, Any]]:
    for operator, keys in statement.get("Condition", {}).items():
        for key, values in keys.items():
            yield operator, key, values


def _when(statement: Statement, operator: str, key: str, values: Any) -> Statement:
    """Return a statement whose condition has other values, or is gone."""
    conditions: Mapping[str, Any] = statement["Condition"]
    other_keys = {name: value for name, value in conditions[operator].items() if name != key}
    new_conditions = {**conditions, operator: other_keys if values is None else {**other_keys, key: values}}
    return {**statement, "Condition": new_conditions}


def _with(policy: Policy, index: int, statement: Statement) -> Policy:
    return (*policy[:index], statement, *policy[index + 1 :])
