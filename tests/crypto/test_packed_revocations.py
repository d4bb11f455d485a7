"""Revocations as they are stored: packed, changed in place and read back."""

import random
import time
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.crypto import packed_revocations
from chalicelib.crypto.packed_revocations import Entry, RevokedKey, RevokedSerial

ENDLESS, LATER, SOON = (
    RevokedSerial(2**64 - 1, None),
    RevokedSerial(7, 2_000_000_000),
    RevokedSerial(300, 1_800_000_000),
)
KEY, OTHER_KEY = RevokedKey(bytes(range(32))), RevokedKey(bytes(32))
ALL: list[Entry] = [LATER, SOON, ENDLESS, OTHER_KEY, KEY]
ENTRIES = st.builds(RevokedSerial, st.integers(1, 40) | st.integers(1, 2**64 - 1), st.none() | st.integers(1, 2**63))
KEYS = st.builds(RevokedKey, st.binary(min_size=32, max_size=32))


def test_what_is_packed_is_unpacked_serials_first_each_kind_in_order() -> None:
    assert packed_revocations.unpack(packed_revocations.pack([KEY, ENDLESS, SOON, OTHER_KEY, LATER])) == ALL
    assert packed_revocations.unpack(packed_revocations.pack([])) == []
    assert packed_revocations.unpack(b"") == []


def test_the_list_takes_serials_and_fingerprints_from_it() -> None:
    packed = packed_revocations.pack(ALL)
    assert packed_revocations.serials(packed) == [7, 300, 2**64 - 1]
    assert packed_revocations.fingerprints(packed) == [bytes(32), bytes(range(32))]
    assert packed_revocations.count(packed) == 5
    assert packed_revocations.count(b"") == 0


def test_an_entry_is_added_once_and_a_serial_takes_its_latest_end() -> None:
    packed = packed_revocations.add(b"", SOON, KEY)
    packed = packed_revocations.add(packed, LATER, KEY, RevokedSerial(300, None))
    assert packed_revocations.unpack(packed) == [LATER, RevokedSerial(300, None), KEY]
    assert packed == packed_revocations.pack([LATER, RevokedSerial(300, None), KEY])


def test_an_entry_is_removed_whatever_its_end() -> None:
    packed = packed_revocations.pack(ALL)
    assert packed_revocations.unpack(packed_revocations.remove(packed, RevokedSerial(7, None), KEY)) == [
        SOON,
        ENDLESS,
        OTHER_KEY,
    ]
    assert packed_revocations.remove(packed, RevokedSerial(8, None), RevokedKey(b"\1" * 32)) == packed
    assert packed_revocations.unpack(packed_revocations.remove(packed, *ALL)) == []
    assert packed_revocations.remove(b"", LATER) == packed_revocations.pack([])


def test_what_has_ended_is_left_out_and_what_has_no_end_stays() -> None:
    packed = packed_revocations.pack(ALL)
    assert packed_revocations.expire(packed, SOON.valid_until - 1) == packed  # type: ignore[operator]
    assert packed_revocations.unpack(packed_revocations.expire(packed, 1_800_000_000)) == [
        LATER,
        ENDLESS,
        OTHER_KEY,
        KEY,
    ]
    assert packed_revocations.unpack(packed_revocations.expire(packed, 2**62)) == [ENDLESS, OTHER_KEY, KEY]
    assert packed_revocations.expire(b"", 1) == packed_revocations.pack([])


def test_an_entry_is_found_whatever_its_end() -> None:
    packed = packed_revocations.pack([SOON, KEY])
    assert packed_revocations.holds(packed, SOON)
    assert packed_revocations.holds(packed, RevokedSerial(300, None))
    assert packed_revocations.holds(packed, KEY)
    for absent in (RevokedSerial(299, SOON.valid_until), RevokedSerial(301, None), ENDLESS, OTHER_KEY):
        assert not packed_revocations.holds(packed, absent)
        assert not packed_revocations.holds(b"", absent)


def test_the_last_end_is_that_of_all_entries() -> None:
    assert packed_revocations.last_end(packed_revocations.pack([SOON, LATER])) == 2_000_000_000
    assert packed_revocations.last_end(b"") == packed_revocations.last_end(packed_revocations.pack([])) == 0
    for endless in (ENDLESS, KEY):
        assert packed_revocations.last_end(packed_revocations.pack([SOON, endless])) is None


def test_24_000_serials_fit_an_item_and_change_in_no_time() -> None:
    numbers = random.Random(1)
    packed = packed_revocations.pack(RevokedSerial(numbers.randrange(1, 2**64), 2_000_000_000) for _ in range(24_000))
    assert len(packed) < 390_000
    started = time.process_time()
    for serial in range(1, 101):
        packed = packed_revocations.add(packed, RevokedSerial(serial * 10**17, None))
    assert packed_revocations.count(packed_revocations.expire(packed, 2_000_000_000)) == 100
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize(
    "packed", [b"\0", b"\0\0\0\1", b"\0\0\0\1" + bytes(15), bytes(4) + bytes(31), bytes(36) + b"\0"]
)
def test_what_is_cut_off_is_a_value_error_and_never_a_shorter_list(packed: bytes) -> None:
    for read in (packed_revocations.unpack, packed_revocations.serials, packed_revocations.fingerprints):
        with pytest.raises(ValueError, match="truncated"):
            read(packed)
    with pytest.raises(ValueError, match="truncated"):
        packed_revocations.add(packed, LATER)


def test_what_cannot_be_packed_is_a_value_error() -> None:
    for entry in (RevokedSerial(0, None), RevokedSerial(2**64, None), RevokedSerial(-1, 1), RevokedSerial(1, 2**64)):
        with pytest.raises(ValueError, match=r"."):
            packed_revocations.pack([entry])
        with pytest.raises(ValueError, match=r"."):
            packed_revocations.add(b"", entry)
    for wrong in (RevokedSerial(1, 0), RevokedSerial(1, -5), RevokedKey(bytes(31))):
        with pytest.raises(ValueError, match=r"."):
            packed_revocations.pack([wrong])


@given(st.lists(ENTRIES | KEYS), st.lists(ENTRIES | KEYS), st.integers(1, 2**63))
def test_changes_of_packed_revocations_are_those_of_a_dictionary(
    added: list[Entry], removed: list[Entry], now: int
) -> None:
    packed = packed_revocations.add(b"", *added)
    expected = {entry[0]: entry for entry in added}
    assert packed == packed_revocations.pack(added)
    assert packed_revocations.unpack(packed) == in_order(expected.values())
    assert [packed_revocations.holds(packed, entry) for entry in removed] == [entry[0] in expected for entry in removed]
    packed = packed_revocations.remove(packed, *removed)
    expected = {key: entry for key, entry in expected.items() if key not in {entry[0] for entry in removed}}
    assert packed_revocations.unpack(packed) == in_order(expected.values())
    valid = [
        entry for entry in expected.values() if isinstance(entry, RevokedKey) or (entry.valid_until or 2**64) > now
    ]
    assert packed_revocations.unpack(packed_revocations.expire(packed, now)) == in_order(valid)


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: (isinstance(entry, RevokedKey), entry[0]))
