"""Ids: their form, their order, and the moment that they carry."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from chalicelib import clock, ids

KSUID = "0ujtsYcgvSTl8PAuAdqWYSMnLOv"


def test_an_id_is_a_prefix_and_27_base62_characters() -> None:
    assert re.fullmatch(r"sshca_[0-9A-Za-z]{27}", ids.new("sshca"))


def test_ids_sort_in_the_order_of_their_making() -> None:
    new_ids = [ids.new("x") for _ in range(10_000)]
    assert new_ids == sorted(new_ids)
    assert len({*new_ids}) == 10_000


def test_ids_made_by_many_threads_at_once_differ_and_sort_within_each() -> None:
    with ThreadPoolExecutor(8) as threads:
        ids_by_thread = [*threads.map(lambda _: [ids.new("x") for _ in range(500)], range(8))]
    assert all(thread_ids == sorted(thread_ids) for thread_ids in ids_by_thread)
    assert len({id for thread_ids in ids_by_thread for id in thread_ids}) == 4_000


def test_an_id_carries_the_moment_of_its_making() -> None:
    off = ids.created_at(ids.new("x")) - clock.now()
    assert abs(off) <= timedelta(seconds=1)  # a clock that was set back is behind the last id


def test_the_moment_in_an_id_is_that_of_a_ksuid() -> None:
    assert clock.rfc3339(ids.created_at(f"x_{KSUID}")) == "2017-10-10T04:00:47Z"  # the example of its inventors
    assert clock.rfc3339(ids.created_at("x_" + "0" * 27)) == "2014-05-13T16:53:20Z"


def test_what_is_behind_the_prefix_identifies() -> None:
    assert ids.strip_prefix(f"ak_{KSUID}") == KSUID


@pytest.mark.parametrize(
    ("text", "prefixes", "is_one"),
    [
        (f"ak_{KSUID}", ("ak",), True),
        (f"ak_{KSUID}", ("usr", "ak"), True),
        (f"ak_{KSUID}", (), False),
        (f"ak_{KSUID}", ("a",), False),
        (f"ak_{KSUID}", ("akk",), False),
        (f"AK_{KSUID}", ("AK",), False),
        (f"a_k_{KSUID}", ("a_k", "a"), False),
        (f"_{KSUID}", ("",), False),
        (KSUID, ("",), False),
        (f"ak_{KSUID[:-1]}", ("ak",), False),
        (f"ak_{KSUID}0", ("ak",), False),
        (f"ak_{KSUID}\n", ("ak",), False),
        (f"ak_{KSUID[:-1]}-", ("ak",), False),
        (f"ak_{KSUID[:-1]}é", ("ak",), False),
        (f"ak_{KSUID[:-1]}٣", ("ak",), False),
        ("", ("ak",), False),
    ],
)
def test_an_id_is_told_by_its_form_and_prefix(text: str, prefixes: tuple[str, ...], is_one: bool) -> None:
    assert ids.is_id(text, *prefixes) is is_one
