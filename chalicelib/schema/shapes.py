"""Shapes: a body, line for line the table of the specification, as an annotated class whose annotations hold its rules.

Those of requests are read (`models.check`); those of responses say what is shown, and are only for `make openapi`, as
is the text beneath a field: Python does not keep it.
"""

import inspect
from functools import cache
from typing import Any


class Shape:
    """A body. What `models.check` returns is of a model made of the shape, which gives the methods their meaning."""

    def values(self) -> dict[str, Any]:
        """Return all fields of a body that was read, as plain values."""
        raise NotImplementedError

    def fields_set(self) -> dict[str, Any]:
        """Return the fields that the client sent, by the names that it used."""
        raise NotImplementedError


class NoFields(Shape):
    """A body without fields: an empty object, or no body at all."""


class Absent(str):
    """The default of a field that a response leaves out where it is not set."""


ABSENT: Any = Absent()  # for a field of any type


@cache
def names(shape: type[Shape]) -> frozenset[str]:
    """Return the names of a shape's fields."""
    return frozenset(name for base in shape.__mro__ for name in inspect.get_annotations(base))
