"""Which headers of a visitor reach no upstream, as a rule. That Envoy obeys it is a live test."""

import re
from collections.abc import Callable

import pytest
import re2

from chalicelib.model.edges.headers import claims
from tests.live.edge.believed import NAMES, NEEDED


@pytest.mark.parametrize(
    "spelled",
    [
        str,
        lambda name: name.replace("-", "_"),
        lambda name: name.replace("-", "_", 1),
        lambda name: name.replace("-", "."),
    ],
    ids=["as they are", "with _", "with one _", "with dots"],
)
def test_what_an_upstream_believes_of_a_proxy_is_removed(spelled: Callable[[str], str]) -> None:
    unmatched = [name for name in NAMES if not re.fullmatch(claims.REGEX, spelled(name).lower())]
    assert unmatched == []


def test_all_else_is_kept() -> None:
    assert [name for name in NEEDED if re.fullmatch(claims.REGEX, name.lower())] == []


def test_its_copies_are_small() -> None:
    """Envoy takes 83 KiB for each copy. With an expression of 14,000 characters and twice the program it took 190."""
    assert len(claims.REGEX) < 2700
    assert re2.compile(claims.REGEX).programsize < 1300
