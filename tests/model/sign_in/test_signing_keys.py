"""The keys of the sign-in service: which signs, which are published, and when one is made."""

import pytest

from chalicelib.model.sign_in import signing_keys
from chalicelib.model.sign_in.signing_keys import MARGIN, PERIOD, KeyPair


def pairs(*starts: int) -> list[KeyPair]:
    return [KeyPair(kid=f"{start:x}", signs_from=start, public={}, sealed=b"") for start in starts]


@pytest.mark.parametrize(
    ("starts", "now", "signs", "published"),
    [
        ([], 0, None, []),
        ([100], 0, 100, [100]),  # the first signs at once
        ([100, 10_000], 9_999, 100, [100, 10_000]),
        ([100, 10_000], 10_000, 10_000, [100, 10_000]),
        ([100, 10_000], 10_000 + MARGIN - 1, 10_000, [100, 10_000]),
        ([100, 10_000], 10_000 + MARGIN, 10_000, [10_000]),
    ],
)
def test_the_newest_that_has_begun_signs(starts: list[int], now: int, signs: int | None, published: list[int]) -> None:
    chosen = signing_keys.choose(pairs(*starts), now)
    assert (chosen.signs_from if chosen else None) == signs
    assert [pair.signs_from for pair in signing_keys.list_published(pairs(*starts), now)] == published


@pytest.mark.parametrize(
    ("starts", "now", "start"),
    [
        ([], 7, 7),
        ([0], PERIOD - MARGIN - 1, None),
        ([0], PERIOD - MARGIN, PERIOD),
        ([0], PERIOD + 5 * MARGIN, PERIOD + 6 * MARGIN),  # nobody was there in time
        ([0, PERIOD], PERIOD, None),
    ],
)
def test_a_pair_is_made_an_hour_before_it_signs(starts: list[int], now: int, start: int | None) -> None:
    assert signing_keys.next_start(pairs(*starts), now) == start


@pytest.mark.usefixtures("admin")
def test_one_process_makes_a_pair_and_all_can_be_removed() -> None:
    public = {"kty": "EC"}
    assert [signing_keys.create("64", 100, public, sealed) for sealed in (b"one", b"two")] == [True, False]
    assert signing_keys.read() == [KeyPair(kid="64", signs_from=100, public=public, sealed=b"one")]
    assert (signing_keys.remove_all(), signing_keys.read()) == (1, [])
