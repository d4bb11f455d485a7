"""Weighted backends (SPEC 2.6, 4.5) by their own rules; what all kinds share is tested once for all of them."""

import pytest

from chalicelib import ids
from tests.refusals import assert_invalid
from tests.transports import Client

PATH = "/backends/weighted"
CHILD = f"bkdhr_{'0' * 27}"


def test_weights_stay_integers_in_the_json(admin: Client) -> None:
    backend = admin.create(PATH, {"backends": {ids.new("bkdhr"): 0, ids.new("bkdtg"): 10_000}})
    answer = admin.get(f"{PATH}/{backend['id']}")
    assert ":0," in answer.text
    assert ":10000}" in answer.text


@pytest.mark.parametrize(
    ("child", "weight", "sentence"),
    [
        *((CHILD, weight, "must be an integer") for weight in (1.0, 1.5, "1", True, None)),
        (CHILD, -1, "must be at least 0"),
        *((CHILD, weight, "must be at most 10000") for weight in (10_001, 10**30)),
        *((child, 1, "must be the id of a backend (bkd…_…)") for child in ("", "x", f"ak_{'0' * 27}", "bkdhr_short")),
    ],
)
def test_a_child_is_a_backend_with_a_weight_from_0_to_10000(
    admin: Client, child: str, weight: object, sentence: str
) -> None:
    assert_invalid(admin.post(PATH, {"backends": {child: weight}}), {f"backends.{child}": sentence})


def test_a_backend_has_at_most_100_children(admin: Client) -> None:
    children = {ids.new("bkdhr"): 1 for _ in range(101)}
    assert_invalid(admin.post(PATH, {"backends": children}), {"backends": "must have at most 100 entries"})
    children.popitem()
    assert admin.create(PATH, {"backends": children})["backends"] == children


def test_a_change_replaces_the_children(admin: Client) -> None:
    backend = admin.create(PATH, {"backends": {ids.new("bkdhr"): 1}})
    children = {ids.new("bkdtg"): 2}
    changed_backend = admin.patch(f"{PATH}/{backend['id']}", {"backends": children}).json
    assert changed_backend == {**backend, "backends": children}
    assert admin.get(f"{PATH}/{backend['id']}").json == changed_backend


def test_a_backend_is_not_its_own_child(admin: Client) -> None:
    backend = admin.create(PATH, {})
    answer = admin.patch(f"{PATH}/{backend['id']}", {"backends": {backend["id"]: 1}})
    assert_invalid(answer, {"backends": "must not contain the id of this backend"})
