"""The fields of a shape are its own and those of its bases."""

from chalicelib.schema import shapes
from chalicelib.schema.shapes import ABSENT, NoFields, Shape


class Base(Shape):
    first: int


class Derived(Base):
    second: str = ABSENT
    first: int = 1


def test_a_shape_has_the_fields_of_its_bases_once() -> None:
    assert [*map(shapes.names, (Derived, Base, NoFields))] == [{"first", "second"}, {"first"}, frozenset()]
