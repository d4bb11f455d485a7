"""Weighted backends (SPEC 2.6, 4.5) by their own rules; what all kinds share is tested once for all of them."""

import pytest

from chalicelib import ids
from tests.transports import Client, refusal

PATH = "/backends/weighted"


def test_a_weighted_backend_is_shown_whole(admin: Client) -> None:
    child, other = ids.new("bkdhr"), ids.new("bkdtg")
    created = admin.create(PATH, {"description": "d", "metadata": "m", "backends": {child: 0, other: 10_000}})
    assert created == {
        "id": created["id"],
        "uri": f"http://localhost{PATH}/{created['id']}",
        "created_at": created["created_at"],
        "description": "d",
        "metadata": "m",
        "backends": {child: 0, other: 10_000},
    }
    assert admin.get(f"{PATH}/{created['id']}").json == created


def test_weights_stay_integers_in_the_json(admin: Client) -> None:
    created = admin.create(PATH, {"backends": {ids.new("bkdhr"): 7}})
    answer = admin.get(f"{PATH}/{created['id']}")
    assert ":7}" in answer.text


@pytest.mark.parametrize("absent", [{}, {"backends": {}}, {"backends": None}])
def test_a_backend_may_have_no_children(admin: Client, absent: dict[str, object]) -> None:
    assert admin.create(PATH, absent)["backends"] == {}


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        (-1, "must be at least 0"),
        (10_001, "must be at most 10000"),
        (1.0, "must be an integer"),
        (1.5, "must be an integer"),
        ("1", "must be an integer"),
        (True, "must be an integer"),
        (None, "must be an integer"),
        (10**30, "must be at most 10000"),
    ],
)
def test_a_weight_is_an_integer_from_0_to_10000(admin: Client, weight: object, sentence: str) -> None:
    child = ids.new("bkdhr")
    answer = admin.post(PATH, {"backends": {child: weight}})
    assert answer.json == refusal(answer, **{f"backends.{child}": sentence})
    assert (answer.status, answer.json["error_code"]) == (400, "invalid_request")


@pytest.mark.parametrize("child", ["", "x", "ak_0ujtsYcgvSTl8PAuAdqWYSMnLOv", "bkdhr_short"])
def test_a_child_is_named_by_a_backend_id(admin: Client, child: str) -> None:
    answer = admin.post(PATH, {"backends": {child: 1}})
    assert answer.json == refusal(answer, **{f"backends.{child}": "must be the id of a backend (bkd…_…)"})


def test_a_backend_has_at_most_100_children(admin: Client) -> None:
    children = {ids.new("bkdhr"): 1 for _ in range(101)}
    answer = admin.post(PATH, {"backends": children})
    assert answer.json == refusal(answer, backends="must have at most 100 entries")
    children.popitem()
    assert admin.create(PATH, {"backends": children})["backends"] == children


def test_a_change_replaces_the_children(admin: Client) -> None:
    created = admin.create(PATH, {"backends": {ids.new("bkdhr"): 1}})
    children = {ids.new("bkdtg"): 2}
    changed = admin.patch(f"{PATH}/{created['id']}", {"backends": children}).json
    assert changed == {**created, "backends": children}
    assert admin.get(f"{PATH}/{created['id']}").json == changed


@pytest.mark.parametrize("none", [{}, None])
def test_an_empty_change_of_the_children_leaves_them(admin: Client, none: object) -> None:
    created = admin.create(PATH, {"backends": {ids.new("bkdhr"): 1}})
    changed = admin.patch(f"{PATH}/{created['id']}", {"backends": none, "description": "new"}).json
    assert changed == {**created, "description": "new"}


def test_a_backend_is_not_its_own_child(admin: Client) -> None:
    created = admin.create(PATH, {})
    answer = admin.patch(f"{PATH}/{created['id']}", {"backends": {created["id"]: 1}})
    assert answer.json == refusal(answer, backends="must not name the backend itself")
