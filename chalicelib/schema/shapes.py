"""Shapes of bodies: annotated classes that follow the tables of the specification line by line.

The annotations contain the rules. `models.check` validates requests by these classes. Only `make openapi` uses the
shapes of responses and the docstrings below fields. Python ignores these docstrings.
"""

import inspect
from functools import cache
from typing import Any


class Shape:
    """The base of all shapes. Pydantic models, which `models` derives from shapes, implement the methods."""

    def values(self) -> dict[str, Any]:
        """Return all fields of a parsed body as plain values."""
        raise NotImplementedError

    def fields_set(self) -> dict[str, Any]:
        """Return the names of the fields that the client sent."""
        raise NotImplementedError


class NoFields(Shape):
    """A body without fields: an empty object, or no body at all."""


class Absent(str):
    """The default of a field that a response leaves out if it is unset."""


ABSENT: Any = Absent()  # typed as Any, so that a field of any type can have this default


@cache
def names(shape: type[Shape]) -> frozenset[str]:
    """Return the names of a shape's fields."""
    return frozenset(name for base in shape.__mro__ for name in inspect.get_annotations(base))
