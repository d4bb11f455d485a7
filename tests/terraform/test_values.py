"""Values of attributes: their meaning, their form in requests, and what a read stores."""

from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from tunneledge_provider.kinds import Attribute
from tunneledge_provider.values import (
    UNKNOWN,
    complete,
    from_answer,
    means_the_same,
    object_to_request,
    refresh,
    to_request,
)


def attribute(type: str = "string", **settings: Any) -> Attribute:  # noqa: A002
    return Attribute("it", type, shown="it", **settings)


KEY = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key()
PEM = KEY.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
LINE = KEY.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()


@pytest.mark.parametrize(
    ("form", "first", "second", "expected"),
    [
        ("", "a", "a", True),
        ("", "a", "A", False),
        ("", None, "", True),
        ("", None, [], True),
        ("", "", "a", False),
        ("", False, None, True),
        ("", True, None, False),
        ("host", "App.Example.com.", "app.example.com", True),
        ("host", ["A.example:443"], ["a.example:443"], True),
        ("host", ["a.example:443"], ["a.example:443", "b.example:443"], False),
        ("time", "2099-01-01T01:00:00.5+01:00", "2099-01-01T00:00:00Z", True),
        ("time", "2099-01-01T00:00:00Z", "2099-01-01T00:00:01Z", False),
        ("time", "tomorrow", "2099-01-01T00:00:01Z", False),
        ("network", "192.0.2.1", "192.0.2.1/32", True),
        ("network", "::ffff:192.0.2.1", "192.0.2.1", True),
        ("network", ["192.0.2.0/24"], ["192.0.2.0/25"], False),
        ("network", "nowhere", "192.0.2.1", False),
        ("pem", "text -----BEGIN X-----\nQUJD\n-----END X-----", "-----BEGIN Y-----\nQU\nJD\n-----END Y-----\n", True),
        ("pem", "-----BEGIN X-----\nQUJD\n-----END X-----", "-----BEGIN X-----\nQUJE\n-----END X-----", False),
        ("key", f"{LINE} a@comment", LINE, True),
        ("key", PEM, LINE, True),
        ("key", "-----BEGIN nothing", LINE, False),
    ],
)
def test_two_texts_mean_the_same(form: str, first: Any, second: Any, expected: bool) -> None:
    assert means_the_same(attribute(format=form), first, second) is expected
    assert means_the_same(attribute(format=form), second, first) is expected


@pytest.mark.parametrize(
    ("type", "first", "second", "expected"),
    [
        ("number", "0.1", "0.10", True),
        ("number", 5, "5", True),
        ("number", 5, 6, False),
        ("json", '{"a": 1, "b": 2}', '{"b":2,"a":1}', True),
        ("json", '{"a": 1}', '{"a": 2}', False),
        ("json", "no JSON", "{}", False),
        ("map", {"a": 1}, {"a": 1}, True),
        ("map", {"a": 1}, {"a": 2}, False),
        ("string", UNKNOWN, UNKNOWN, True),
        ("string", UNKNOWN, None, False),
    ],
)
def test_two_values_mean_the_same(type: str, first: Any, second: Any, expected: bool) -> None:  # noqa: A002
    assert means_the_same(attribute(type), first, second) is expected


SECRET = attribute(sensitive=True)


@pytest.mark.parametrize(
    ("schema", "before", "answer", "expected"),
    [
        (attribute(), "a", "b", "b"),
        (attribute(), None, "", ""),
        (attribute(), "", None, ""),
        (attribute(), "a", None, None),
        (attribute(format="host"), "A.example", "a.example", "A.example"),
        (SECRET, "s", "", "s"),
        (SECRET, "s", None, "s"),
        (SECRET, "s", "t", "t"),
        (attribute("object", fields=(SECRET,)), {"it": "s"}, {"it": ""}, {"it": "s"}),
        (attribute("object", fields=(SECRET,)), None, {"it": "s"}, {"it": "s"}),
        (attribute("object", fields=(SECRET,)), {"it": "s"}, None, None),
        (attribute("objects", fields=(SECRET,)), [{"it": "s"}], [{"it": ""}, {"it": "t"}], [{"it": "s"}, {"it": "t"}]),
    ],
)
def test_a_read_keeps_what_means_the_same_and_secrets_that_are_not_shown(
    schema: Attribute, before: Any, answer: Any, expected: Any
) -> None:
    assert refresh(schema, before, answer) == expected


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (attribute("number"), "0.1", 0.1),
        (attribute("number"), "5", 5),
        (attribute("json"), '{"a": 1}', {"a": 1}),
        (attribute("map", of="number"), {"a": "2"}, {"a": 2}),
        (attribute("object", fields=(attribute(),)), {"it": UNKNOWN}, {}),
        (attribute("objects", fields=(attribute(),)), [{"it": "a"}, {"it": None}], [{"it": "a"}, {}]),
    ],
)
def test_a_request_has_what_is_known(schema: Attribute, value: Any, expected: Any) -> None:
    assert to_request(schema, value) == expected


def test_what_must_be_json_is_named() -> None:
    with pytest.raises(ValueError, match=r"^it must be a JSON text, for example jsonencode\({…}\): "):
        object_to_request([attribute("json")], {"it": "{"})


@pytest.mark.parametrize(
    ("schema", "answer", "expected"),
    [
        (attribute(form="id"), {"it": {"id": "a", "uri": ""}}, "a"),
        (attribute(form="ids"), {"it": [{"id": "a"}, {"id": "b"}]}, ["a", "b"]),
        (attribute(form="id"), {"it": None}, None),
        (attribute("number"), {"it": 0.1}, "0.1"),
        (attribute("number"), {"it": 1.0}, 1),
        (attribute("json"), {"it": {"b": 1, "a": 2}}, '{"a": 2, "b": 1}'),
        (attribute("object", fields=(attribute(),)), {"it": {"it": "a", "other": 1}}, {"it": "a"}),
    ],
)
def test_an_answer_has_values_of_attributes(schema: Attribute, answer: Any, expected: Any) -> None:
    assert from_answer(schema, answer) == expected


def test_an_answer_completes_a_plan() -> None:
    planned = {"a": UNKNOWN, "b": "planned", "c": {"d": UNKNOWN, "e": UNKNOWN}, "f": [UNKNOWN], "g": {"h": UNKNOWN}}
    answer = {"a": "x", "b": "other", "c": {"d": 1}, "f": ["y"]}
    assert complete(planned, answer) == {
        "a": "x", "b": "planned", "c": {"d": 1, "e": None}, "f": ["y"], "g": {"h": None},
    }  # fmt: skip
