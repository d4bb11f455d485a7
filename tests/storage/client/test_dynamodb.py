"""Python values as DynamoDB attributes and back; boto3's own serializer is the judge."""

from decimal import Decimal
from typing import Any

import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from chalicelib.storage.client import dynamodb

KEPT: list[Any] = [
    None,
    True,
    False,
    "",
    "é\n",
    0,
    -1,
    2**64 - 1,
    b"\x00\xff",
    {"one", "two"},
    [],
    [1, ["a", None]],
    {},
    {"a": {"b": [True, {"c": 0}]}},
]


@pytest.mark.parametrize("value", KEPT)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    [plain_value] = dynamodb.decode(dynamodb.encode({"name": value})).values()
    assert (type(plain_value), plain_value) == (type(value), value)


@pytest.mark.parametrize("value", KEPT)
def test_an_attribute_is_what_boto3_makes_of_the_value(value: Any) -> None:
    attribute = dynamodb.encode_value(value)
    assert TypeDeserializer().deserialize(attribute) == TypeDeserializer().deserialize(
        TypeSerializer().serialize(value)
    )


def test_tuples_are_lists_and_frozen_sets_are_sets() -> None:
    assert dynamodb.encode_value(("a", 1)) == {"L": [{"S": "a"}, {"N": "1"}]}
    assert dynamodb.encode_value(frozenset({"b", "a"})) == {"SS": ["a", "b"]}


@pytest.mark.parametrize("value", [1.5, Decimal(1), object(), {"a": 1.5}])
def test_what_is_nothing_to_keep_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError):
        dynamodb.encode_value(value)


def test_what_nothing_here_writes_is_left_to_whoever_reads_the_record() -> None:
    assert dynamodb.decode({"a": {"NS": ["1"]}, "b": {"N": "1.5"}, "c": {"N": "1E+3"}}) == {
        "a": ["1"],
        "b": "1.5",
        "c": "1E+3",
    }
