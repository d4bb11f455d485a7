"""The progress of a walk as its root stores it: it continues only with the same choice."""

from typing import Any

import pytest

from chalicelib.model.base.switches import WALK
from chalicelib.model.offboarding import progress
from chalicelib.storage.records.items import Item

CHOICE = "end revoke"


def root(walk: Any) -> Item:
    return Item("acct_a#/api_keys", "ak_a", {}, unseen={WALK: walk} if walk is not None else {})


def test_a_walk_continues_with_the_same_choice() -> None:
    begun = progress.begin(CHOICE, {"ak_b": "usr_a"}, None)
    stored = root(begun.to_record())
    assert progress.read(stored, CHOICE) == begun
    assert progress.read(stored, "keep revoke") is None


@pytest.mark.parametrize("walk", [None, "", [], {}, {"began": "now", "choice": CHOICE}, {"choice": CHOICE}])
def test_a_missing_or_malformed_walk_begins_again(walk: Any) -> None:
    assert progress.read(root(walk), CHOICE) is None
