"""The table of kinds: every prefix, path and name is of one kind."""

from collections import Counter

import pytest

from chalicelib import ids
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind

LISTED = [kind for kind in kinds.TABLE if kind.path and kind.name]


@pytest.mark.parametrize("attribute", ["prefix", "path", "name"])
def test_no_two_kinds_have_one(attribute: str) -> None:
    counted = Counter(getattr(kind, attribute) for kind in LISTED)
    assert [value for value, count in counted.items() if count > 1] == []


@pytest.mark.parametrize("kind", LISTED, ids=lambda kind: kind.name)
def test_a_kind_is_found_by_its_path_and_has_the_ids_with_its_prefix(kind: Kind) -> None:
    assert kinds.find_by_path(kind.path) is kind
    id = ids.new(kind.prefix)
    assert [other for other in LISTED if other.has(id) and not kind.is_covered_by(other)] == [kind]
    assert not any(kind.has(text) for text in (id[:-1], f"{id}0", id.upper(), f"{id}\n", ""))


def test_two_kinds_have_a_parent() -> None:
    parents = {kind.name: kind.parent.name for kind in LISTED if kind.parent}
    assert parents == {"HTTPS edge route": "HTTPS edge", "SSH revocation": "SSH certificate authority"}
