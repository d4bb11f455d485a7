"""Shapes and what reads bodies into them: plain classes, of which pydantic makes a model for the first body."""

from typing import Annotated

import pytest

from chalicelib import crypto
from chalicelib.schema import models
from chalicelib.schema.fields import DescribedShape
from chalicelib.schema.models import model
from chalicelib.schema.rules import between, unless_nothing
from chalicelib.schema.shapes import Shape


class Inner(Shape):
    size: Annotated[int, between(1, 9)] = 1


class Outer(DescribedShape):
    inner: Inner
    more: list[Inner] = []


class Change(Outer):
    inner: Annotated[Inner, unless_nothing] = Inner()


def test_what_was_read_is_of_the_shape_and_so_is_what_stands_in_it() -> None:
    request, errors = models.check(Outer, {"inner": {"size": 2}, "more": [{}]})
    assert errors == {}
    assert isinstance(request, Outer)
    assert isinstance(request.inner, Inner)
    assert isinstance(request.more[0], Inner)
    assert request.values() == {"description": "", "metadata": "", "inner": {"size": 2}, "more": [{"size": 1}]}
    assert request.fields_set() == {"inner": {"size": 2}, "more": [{}]}


def test_every_fault_is_named_by_its_path() -> None:
    request, errors = models.check(Outer, {"inner": {"size": 10, "colour": 1}, "more": [{"size": 0}, 3], "x": 1})
    assert request is None
    assert errors == {
        "inner.size": "must be at most 9",
        "inner.colour": "is not accepted here; accepted: size",
        "more.0.size": "must be at least 1",
        "more.1": "must be an object",
        "x": "is not accepted here; accepted: description, metadata, inner, more",
    }


def test_a_field_that_nothing_leaves_unchanged_was_not_given() -> None:
    request, wrong = models.check(Change, {"inner": {}, "description": "d"})
    assert request is not None, wrong
    assert request.fields_set() == {"description": "d"}


class Redeclared(Outer):
    description: str
    more: list[Inner]


class BelowRedeclared(Redeclared):
    pass


@pytest.mark.parametrize("shape", [Redeclared, BelowRedeclared])
def test_a_field_that_is_declared_again_without_a_default_is_required(shape: type[Shape]) -> None:
    request, errors = models.check(shape, {"inner": {}})
    assert request is None
    assert errors == {"description": "is required", "more": "is required"}
    request, errors = models.check(shape, {"inner": {}, "description": "d", "more": []})
    assert (request and request.values(), errors) == (
        {"description": "d", "metadata": "", "inner": {"size": 1}, "more": []},
        {},
    )


def test_a_body_cannot_be_changed_and_says_nothing_of_what_it_holds() -> None:
    request, _ = models.check(Outer, {"inner": {}, "metadata": "secret"})
    assert "secret" not in repr(request) + str(request)
    with pytest.raises(ValueError, match="frozen"):
        request.metadata = "other"  # type: ignore[union-attr]


def test_a_shape_has_one_model() -> None:
    assert model(Outer) is model(Outer)


def test_the_modules_of_the_cryptography_are_there_when_they_are_asked_for_and_nothing_else_is() -> None:
    assert crypto.keys.generate_ed25519()
    with pytest.raises(AttributeError, match="nothing"):
        crypto.nothing  # noqa: B018
