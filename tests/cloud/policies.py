"""The policies of IAM, as lists of the statements that allow something."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests.conftest import ROOT

Statement = Mapping[str, Any]


def of_function(file: str) -> list[Statement]:
    """Return the statements of a function's policy, which stands beside Chalice's settings."""
    statements: list[Statement] = json.loads((ROOT / ".chalice" / file).read_text())["Statement"]
    return statements


def each(value: Any) -> list[Any]:
    """Return the list that a policy may write as its only member."""
    return value if isinstance(value, list) else [value]


def actions(statements: Iterable[Statement]) -> set[str]:
    return {action for statement in statements for action in each(statement["Action"])}
