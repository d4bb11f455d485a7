"""Claim patterns: `*`, lists, and values that match nothing."""

from typing import Any

import pytest

from chalicelib.federation import claims

MATCHES: list[tuple[str, Any]] = [
    ("main", "main"),
    ("*", ""),
    ("*", "a\nb"),
    ("refs/heads/*", "refs/heads/"),
    ("refs/heads/*", "refs/heads/a\n"),
    ("*/main", "refs/heads/main"),
    ("a*b*c", "a--b--b--c"),
    ("a**b", "ab"),
    ("a[b]?", "a[b]?"),
    ("74", 74),
    ("-1", -1),
    ("true", True),
    ("false", False),
    ("b", ["a", "b"]),
    ("2", [1, 2]),
]
OTHERS: list[tuple[str, Any]] = [
    ("main", "main\n"),
    ("main", "Main"),
    ("ab*ba", "aba"),
    ("a*b*c", "a-c-b"),
    ("*a*a*", "a"),
    ("1", True),
    ("74", 74.0),
    ("*", None),
    ("*", 1.5),
    ("*", {"a": "b"}),
    ("*", []),
    ("*", [["a"], {}, None, 1.5]),
    ("\\*", "*"),
]


@pytest.mark.parametrize(("pattern", "value"), MATCHES)
def test_a_pattern_matches_the_whole_value(pattern: str, value: Any) -> None:
    assert claims.matches([pattern], value)


@pytest.mark.parametrize(("pattern", "value"), OTHERS)
def test_a_pattern_does_not_match_other_values(pattern: str, value: Any) -> None:
    assert not claims.matches([pattern], value)


def test_one_pattern_of_a_list_suffices_and_each_claim_is_required() -> None:
    token = {"ref": "refs/heads/main", "a.b": "1", "n": 2}
    assert claims.find_mismatch(token, {"ref": ["refs/tags/*", "refs/heads/*"], "a.b": "1", "n": "2"}) is None
    assert claims.find_mismatch(token, {"ref": ["refs/tags/*"], "n": "2"}) == "ref"
    assert claims.find_mismatch({"a": {"b": "1"}}, {"a.b": "1"}) == "a.b"


def test_many_stars_take_little_time() -> None:
    assert not claims.matches(["*a" * 255 + "*b"], "a" * 16_384)
