"""Which names stay loaded: periods, second chances, and the bounds of wildcard, account and host."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from edge.plan.loaded import Bounds, LoadedName, LoadedNames, Room

BOUNDS = Bounds(host_kib=1000, names_per_account=5, names_per_wildcard=3, period=10, scope_lifetime=30)
A, B = "acct_a", "acct_b"


def name(text: str, *, account: str = A, wildcard: str = "", kib: int = 10, at: float = 0) -> LoadedName:
    return LoadedName(text, account, wildcard, kib, at)


def load_names(*names: LoadedName, bounds: Bounds = BOUNDS) -> LoadedNames:
    loaded_names = LoadedNames(bounds)
    for loaded_name in names:
        loaded_names.put(replace(loaded_name))
    return loaded_names


def take_names(names: LoadedNames, now: float) -> list[str]:
    return [loaded_name.name for loaded_name in names.take_unrequested(now)]


def list_unused(names: LoadedNames, now: float) -> list[str]:
    return [loaded_name.name for loaded_name in names.list_unused(now)]


def test_a_secret_is_removed_after_a_period_without_a_request() -> None:
    names = load_names(name("a"), name("b", at=5))
    assert [take_names(names, now) for now in (9, 10, 11, 15)] == [[], ["a"], [], ["b"]]
    assert names.secrets == 0
    assert len(names) == 2


def test_a_requested_name_keeps_its_secret_for_another_period() -> None:
    names = load_names(name("a"), name("b"))
    names.request("a", 9)
    assert take_names(names, 10) == ["b"]
    names.request("b", 12)
    assert [take_names(names, now) for now in (18, 19, 21, 22)] == [[], ["a"], [], ["b"]]


def test_a_scope_stays_until_no_connection_can_use_it() -> None:
    names = load_names(name("a"))
    assert take_names(names, 10) == ["a"]
    assert [list_unused(names, now) for now in (20, 39, 40)] == [[], [], ["a"]]
    names.request("a", 41)
    assert [list_unused(names, now) for now in (41, 200)] == [[], []]


def test_a_short_lifetime_of_scopes_does_not_shorten_the_two_periods() -> None:
    names = load_names(name("a"), bounds=replace(BOUNDS, scope_lifetime=1))
    assert take_names(names, 10) == ["a"]
    assert [list_unused(names, now) for now in (12, 19, 20)] == [[], [], ["a"]]


def test_a_forgotten_name_counts_no_more() -> None:
    names = load_names(name("a"), name("b", account=B))
    names.remove("a")
    names.remove("unknown")
    assert (len(names), names.kib, names.find("a"), [loaded_name.name for loaded_name in names]) == (1, 10, None, ["b"])


def test_a_forgotten_name_leaves_room_for_its_account() -> None:
    names = load_names(name("a", kib=60), name("b", kib=30))
    assert names.make_room(name("c", kib=60)) == Room(("a",))
    names.remove("a")
    assert names.make_room(name("c", kib=60)) == Room()


def test_a_name_whose_secret_is_requested_again_has_it_again() -> None:
    names = load_names(name("a"))
    assert take_names(names, 10) == ["a"]
    names.request("a", 12)
    loaded_name = names.find("a")
    assert loaded_name
    assert (loaded_name.requested_at, loaded_name.secret_removed_at, names.secrets) == (12, None, 1)


def test_a_replaced_name_counts_once() -> None:
    names = load_names(name("a"), name("a", account=B, kib=30))
    assert (names.kib, [(loaded_name.name, loaded_name.account) for loaded_name in names]) == (30, [("a", B)])


OF_ACCOUNT = [name(letter, at=seconds) for seconds, letter in enumerate("abcde")]
BELOW = [name(label, at=seconds, wildcard="*.w") for seconds, label in enumerate(["x.w", "y.w", "z.w"])]


@pytest.mark.parametrize(
    ("present", "removed_names", "wanted_name", "room"),
    [
        ([], [], name("n"), Room()),
        (OF_ACCOUNT[:4], [], name("n"), Room()),
        (OF_ACCOUNT, [], name("n"), Room(("a",))),
        (OF_ACCOUNT, ["b", "c"], name("n"), Room(("b",))),
        (OF_ACCOUNT, ["c"], name("n", account=B), Room()),
        (OF_ACCOUNT, [], replace(OF_ACCOUNT[0]), Room()),
        (BELOW, [], name("n.w", wildcard="*.w"), Room(("x.w",))),
        (BELOW, ["z.w"], name("n.w", wildcard="*.w"), Room(("z.w",))),
        (BELOW, [], name("n"), Room()),
        (BELOW, [], replace(BELOW[1]), Room()),
        ([name("older", at=-1), *BELOW], [], name("n.w", wildcard="*.w"), Room(("x.w",))),
        ([], [], name("n", kib=100), Room()),
        ([], [], name("n", kib=101), Room(refusal="account")),
        ([name("a", kib=60), name("b", kib=30, at=1)], [], name("n", kib=30), Room(("a",))),
        ([name("a", kib=60), name("b", kib=30, at=1)], [], name("n", kib=80), Room(("a", "b"))),
        ([name("a", kib=60), name("b", kib=30, at=1)], [], name("a", kib=70), Room()),
        ([name("a", kib=60), name("b", kib=30, at=1)], [], name("a", kib=71), Room(("b",))),
    ],
)
def test_an_account_makes_room_with_its_own_names(
    present: Sequence[LoadedName], removed_names: Sequence[str], wanted_name: LoadedName, room: Room
) -> None:
    names = load_names(*present)
    for removed_name in removed_names:
        loaded_name = names.find(removed_name)
        assert loaded_name
        names.put(replace(loaded_name, secret_removed_at=10.0))
    assert names.make_room(wanted_name) == room


FULL: Mapping[str, LoadedName] = {
    f"n{number}": name(f"n{number}", account=f"acct_{number}", kib=100) for number in range(10)
}


def test_a_full_host_refuses_new_names_and_none_that_are_loaded() -> None:
    names = load_names(*FULL.values())
    assert names.make_room(name("new", account="acct_new")).refusal == "host"
    assert names.make_room(replace(FULL["n1"], kib=100)) == Room()
    names.remove("n1")
    assert names.make_room(name("new", account="acct_new", kib=100)) == Room()


def test_a_name_that_replaces_another_of_its_account_fits_in_a_full_host() -> None:
    assert load_names(*FULL.values()).make_room(name("new", account="acct_3", kib=100)) == Room(("n3",))


def test_under_pressure_the_oldest_names_leave_early_and_unused_scopes_with_them() -> None:
    names = load_names(*FULL.values())
    assert names.is_under_pressure
    assert [len(take_names(names, now)) for now in (0.9, 1)] == [0, 10]
    assert list_unused(names, 19) == []
    assert list_unused(names, 20) == ["n0"]
    names.remove("n0")
    assert not names.is_under_pressure
    assert list_unused(names, 20) == []


def test_without_pressure_no_name_leaves_early() -> None:
    names = load_names(*[loaded_name for loaded_name in FULL.values() if loaded_name.name != "n0"])
    assert (names.is_under_pressure, take_names(names, 9)) == (False, [])
