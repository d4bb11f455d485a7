"""Key revocation lists (KRL), as sshd's RevokedKeys and ssh's RevokedHostKeys read them.

The format is OpenSSH's PROTOCOL.krl, unsigned. Keys are listed by their SHA-256, which OpenSSH 7.9 and later read.
"""

import base64
import struct
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from operator import sub

_HEADER = struct.Struct(">8sIQQQ")  # magic number, format version, list version, date, flags
_MAGIC, _FORMAT = b"SSHKRL\n\0", 1
_CERTIFICATES, _SHA256 = 1, 5  # section types of a KRL: certificates, and SHA-256 digests of keys
_LIST, _RANGE, _BITMAP = 0x20, 0x21, 0x22  # types of the subsections in a section of the type _CERTIFICATES
_SERIAL_BYTES = 8
_NEAR = 8 * _SERIAL_BYTES  # the largest gap between two serials at which a bitmap is not larger than a list
_RANGE_BYTES = 5 + 2 * 8  # the size of a range: the header of a subsection, and two serials

# the size of a bitmap for 8 serials: header, lowest serial, length, and one byte of bits
_BITMAP_BYTES = 5 + 8 + 4 + 1
_MAX_BITMAP_BITS = 16_384  # OpenSSH rejects a revocation list with a larger bitmap
_MAX_SERIAL = 2**64 - 1

_Run = tuple[int, int]  # a run of consecutive serials: the first and the last serial


@dataclass(frozen=True)
class Revoked:
    """The serials of an authority's revoked certificates. `authority` is its public key as an authorized_keys line."""

    authority: str
    serials: Collection[int]


def make(
    *,
    version: int,
    generated: datetime,
    certificates: Iterable[Revoked],
    fingerprints: Collection[bytes] = (),
    comment: str = "",
) -> bytes:
    """Encode a list of revoked certificates and of revoked keys (SHA-256 fingerprints).

    A revoked key also revokes its certificates. Raises ValueError for values that the format cannot encode, because
    sshd refuses all logins if it cannot read its revocation list.
    """
    sections = [
        _section(_CERTIFICATES, _certificates(revoked.authority, revoked.serials))
        for revoked in certificates
        if revoked.serials
    ]
    if fingerprints:
        sections.append(_section(_SHA256, _fingerprints(fingerprints)))
    return b"".join((_header(version, generated, comment), *sections))


def _header(version: int, generated: datetime, comment: str) -> bytes:
    if "\0" in comment:
        raise ValueError("the comment of a revocation list must not contain NUL characters")
    try:
        fixed = _HEADER.pack(_MAGIC, _FORMAT, version, int(generated.timestamp()), 0)
    except struct.error:
        raise ValueError("the version and date of a revocation list must be unsigned integers of 64 bits") from None
    return fixed + _string(b"") + _string(comment.encode())


def _certificates(authority: str, serials: Iterable[int]) -> bytes:
    ordered = sorted(serials)
    if ordered[0] < 1 or ordered[-1] > _MAX_SERIAL:
        raise ValueError(f"serial numbers must be from 1 to {_MAX_SERIAL}")
    key = base64.b64decode(authority.split()[1], validate=True)
    return b"".join((_string(key), _string(b""), *_serials(ordered)))


def _fingerprints(fingerprints: Iterable[bytes]) -> bytes:
    ordered = sorted(set(fingerprints))
    if any(len(fingerprint) != 32 for fingerprint in ordered):
        raise ValueError("each fingerprint must have 32 bytes")
    return b"".join(map(_string, ordered))


def _serials(ordered: list[int]) -> Iterator[bytes]:
    """Yield the subsections that encode serials in few bytes.

    Serials that are close together become bitmaps and ranges. All other serials are in one list.
    """
    single, groups = _split_serials(ordered)
    for runs in (runs for group in groups for runs in _neighbours(_runs(sorted(set(group))))):
        if _BITMAP_BYTES + (runs[-1][1] - runs[0][0]) // 8 < sum(map(_bytes, runs)):
            yield _section(_BITMAP, _bitmap(runs))
            continue
        for first, last in runs:
            if _bytes((first, last)) == _RANGE_BYTES:
                yield _section(_RANGE, struct.pack(">QQ", first, last))
            else:
                single.extend(range(first, last + 1))
    if single:
        yield _section(_LIST, struct.pack(f">{len(single)}Q", *sorted(single)))


def _split_serials(ordered: list[int]) -> tuple[list[int], list[list[int]]]:
    """Split serials into isolated serials, and groups of serials that are close together.

    Random serials rarely form groups.
    """
    near = [index for index, gap in enumerate(map(sub, ordered[1:], ordered)) if gap <= _NEAR]
    single: list[int] = []
    groups: list[list[int]] = []
    end = 0
    for index in near:
        if groups and index == end - 1:
            groups[-1].append(ordered[index + 1])
        else:
            single += ordered[end:index]
            groups.append(ordered[index : index + 2])
        end = index + 2
    return single + ordered[end:], groups


def _runs(ordered: list[int]) -> Iterator[_Run]:
    first = ordered[0]
    for serial, following in pairwise(ordered):
        if following != serial + 1:
            yield first, serial
            first = following
    yield first, ordered[-1]


def _neighbours(runs: Iterable[_Run]) -> Iterator[list[_Run]]:
    """Divide runs into groups, so that each group fits into one bitmap. A run is a range of consecutive serials.

    The gaps in a group are at most _NEAR serials: across larger gaps, a bitmap needs more bytes than a list of serials.
    """
    together: list[_Run] = []
    for run in runs:
        if together and not _fits(together, run):
            yield together
            together = []
        together.append(run)
    yield together


def _fits(together: list[_Run], run: _Run) -> bool:
    gap, span = run[0] - together[-1][1], run[1] - together[0][0] + 1
    return gap <= _NEAR and span <= _MAX_BITMAP_BITS


def _bytes(run: _Run) -> int:
    """Return the size of a run of consecutive serials, in bytes: as a list or as a range, whichever is smaller."""
    return min(_SERIAL_BYTES * (run[1] - run[0] + 1), _RANGE_BYTES)


def _bitmap(runs: list[_Run]) -> bytes:
    """Encode runs as the lowest serial and an integer. Its bit n is set if the lowest serial plus n is revoked."""
    offset = runs[0][0]
    bits = sum((1 << last + 1 - offset) - (1 << first - offset) for first, last in runs)
    return struct.pack(">Q", offset) + _string(bits.to_bytes(bits.bit_length() // 8 + 1))


def _section(section: int, content: bytes) -> bytes:
    return bytes([section]) + _string(content)


def _string(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content
