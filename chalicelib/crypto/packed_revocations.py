"""Lists of revoked certificates and keys, packed for storage.

The entry of a certificate is its serial and its end, the Unix second at which the certificate expires: 16 bytes. The
entry of a key is its SHA-256 fingerprint: 32 bytes. A packed entry is called a record. The functions below read packed
lists, and return changed copies of them.

Serials and fingerprints are sorted and unique, so that bisection finds an entry and a change does not unpack the list.
An empty list has no bytes. Truncated bytes raise ValueError: they must never be read as a shorter list.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

_COUNT = struct.Struct(">I")  # a packed list starts with its number of serials; then serials and fingerprints follow
_SERIAL = struct.Struct(">QQ")
_NUMBER_BYTES = 8  # serials and expiry times are 64-bit integers
_NO_END = 0
_FINGERPRINT_BYTES = 32


class RevokedSerial(NamedTuple):
    """The serial of a revoked certificate. `valid_until` is the Unix second of its expiry, or None."""

    number: int
    valid_until: int | None


class RevokedKey(NamedTuple):
    """The SHA-256 fingerprint of a revoked key. Unlike a certificate, a key does not expire."""

    fingerprint: bytes


Entry = RevokedSerial | RevokedKey


def pack(entries: Iterable[Entry]) -> bytes:
    """Return a packed list of entries. If a serial occurs twice, the last entry counts."""
    entry_list = list(entries)
    serials = {entry.number: _record(entry) for entry in entry_list if isinstance(entry, RevokedSerial)}
    keys = {_record(entry) for entry in entry_list if isinstance(entry, RevokedKey)}
    return _join(b"".join(sorted(serials.values())), b"".join(sorted(keys)))


def unpack(packed: bytes) -> list[Entry]:
    """Return the entries of a packed list. The serials come before the keys, and both are in ascending order."""
    records, _ = _split(packed)
    serials = [RevokedSerial(number, None if end == _NO_END else end) for number, end in _SERIAL.iter_unpack(records)]
    return [*serials, *map(RevokedKey, fingerprints(packed))]


def serials(packed: bytes) -> list[int]:
    """Return the serials in a packed list, in ascending order."""
    return list(_numbers(_split(packed)[0])[::2])


def fingerprints(packed: bytes) -> list[bytes]:
    """Return the fingerprints of keys in a packed list, in ascending order."""
    records = _split(packed)[1]
    return [records[start : start + _FINGERPRINT_BYTES] for start in range(0, len(records), _FINGERPRINT_BYTES)]


def count(packed: bytes) -> int:
    """Return the number of entries in a packed list: serials and keys."""
    records, keys = _split(packed)
    return len(records) // _SERIAL.size + len(keys) // _FINGERPRINT_BYTES


def holds(packed: bytes, entry: Entry) -> bool:
    """Return whether a packed list contains the serial or key of an entry. A serial is found with any expiry."""
    records, keys = _split(packed)
    if isinstance(entry, RevokedSerial):
        return _find(records, _record(entry)[:_NUMBER_BYTES], _SERIAL.size)[1]
    return _find(keys, _record(entry), _FINGERPRINT_BYTES)[1]


def last_end(packed: bytes) -> int | None:
    """Return the Unix second at which all certificates in a packed list have expired.

    Returns None if the list contains a key or a serial without an end, and 0 for an empty list.
    """
    records, keys = _split(packed)
    ends = [end for _, end in _SERIAL.iter_unpack(records)]
    return None if keys or _NO_END in ends else max(ends, default=0)


def add(packed: bytes, *entries: Entry) -> bytes:
    """Add entries to a packed list. The expiry of a serial that it already contains is replaced."""
    return _change(packed, ((entry, _record(entry)) for entry in entries))


def remove(packed: bytes, *entries: Entry) -> bytes:
    """Remove the serials and keys of entries from a packed list. A serial is removed with any expiry."""
    return _change(packed, ((entry, b"") for entry in entries))


def expire(packed: bytes, now: int) -> bytes:
    """Remove expired certificates from a packed list. `now` is the current Unix second."""
    records, keys = _split(packed)
    if packed and min(filter(None, _numbers(records)[1::2]), default=now + 1) > now:
        return packed
    unexpired = ((number, end) for number, end in _SERIAL.iter_unpack(records) if end == _NO_END or end > now)
    return _join(b"".join(_SERIAL.pack(number, end) for number, end in unexpired), keys)


def _change(packed: bytes, changes: Iterable[tuple[Entry, bytes]]) -> bytes:
    """Change a packed list. Each change is an entry with its new record, or with b"" to remove the entry."""
    records, keys = _split(packed)
    for entry, record in changes:
        if isinstance(entry, RevokedSerial):
            records = _replace(records, _record(entry)[:_NUMBER_BYTES], record, _SERIAL.size)
        else:
            keys = _replace(keys, _record(entry), record, _FINGERPRINT_BYTES)
    return _join(records, keys)


def _replace(records: bytes, key: bytes, record: bytes, size: int) -> bytes:
    """Replace or add the record that starts with `key`, in sorted records of `size` bytes each.

    If `record` is empty, the old record is removed.
    """
    start, is_there = _find(records, key, size)
    return records[:start] + record + records[start + size if is_there else start :]


def _find(records: bytes, key: bytes, size: int) -> tuple[int, bool]:
    """Return the offset of the record that starts with `key`, and whether the record exists.

    For a missing record, return the offset at which it would be inserted.
    """
    starts = range(0, len(records), size)
    start = size * bisect_left(starts, key, key=lambda start: records[start : start + len(key)])
    return start, records.startswith(key, start)


def _numbers(records: bytes) -> tuple[int, ...]:
    """Return the integers in the records of certificates: serial, expiry, serial, expiry and so on."""
    return struct.unpack(f">{len(records) // _NUMBER_BYTES}Q", records)


def _record(entry: Entry) -> bytes:
    if isinstance(entry, RevokedKey):
        if len(entry.fingerprint) != _FINGERPRINT_BYTES:
            raise ValueError(f"each fingerprint must have {_FINGERPRINT_BYTES} bytes")
        return entry.fingerprint
    if entry.number < 1 or (entry.valid_until is not None and entry.valid_until < 1):
        raise ValueError("serial numbers and expiry times must be positive")
    try:
        return _SERIAL.pack(entry.number, _NO_END if entry.valid_until is None else entry.valid_until)
    except struct.error:
        raise ValueError("serial numbers and expiry times must fit into 64 bits") from None


def _split(packed: bytes) -> tuple[bytes, bytes]:
    """Split a packed list into its packed serials and its packed key fingerprints."""
    if not packed:
        return b"", b""
    size = _COUNT.size + _SERIAL.size * int.from_bytes(packed[: _COUNT.size])
    if len(packed) < max(size, _COUNT.size) or (len(packed) - size) % _FINGERPRINT_BYTES:
        raise ValueError("the packed revocation list is truncated: it ends within an entry")
    return packed[_COUNT.size : size], packed[size:]


def _join(records: bytes, keys: bytes) -> bytes:
    return _COUNT.pack(len(records) // _SERIAL.size) + records + keys
