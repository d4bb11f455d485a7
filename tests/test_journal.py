"""The journal of the embedded cloud: what is whole is read again, wherever the file was cut."""

import os
from pathlib import Path

from infra.local.embedded import journal
from infra.local.embedded.journal import Journal, Line

CHANGES = [
    [Line("arn:t", "accounts", "a", {"name": {"S": "A ü\n;\n"}})],
    [Line("arn:t", "a#/keys", "k", {"n": {"N": "1"}}), Line("arn:t", "token#k", "claim", {"b": {"B": "AA=="}})],
    [Line("arn:t", "token#k", "claim", None)],
]


def write_journal(file: Path) -> list[int]:
    """Return a journal with the changes; where each of them ends."""
    journal, ends = Journal(file), []
    for change in CHANGES:
        for line in change:
            journal.write(line)
        journal.commit()
        ends.append(journal.end)
    journal.close()
    return ends


def test_cut_anywhere_it_holds_the_changes_that_are_whole(tmp_path: Path) -> None:
    file = tmp_path / "journal"
    ends = write_journal(file)
    assert list(journal.read(file)) == list(zip(CHANGES, ends, strict=True))
    assert file.stat().st_mode & 0o777 == 0o600
    for cut in range(file.stat().st_size, -1, -1):
        os.truncate(file, cut)
        assert [change for change, _ in journal.read(file)] == CHANGES[: sum(end <= cut for end in ends)]


def test_what_power_left_of_a_change_may_be_anything(tmp_path: Path) -> None:
    file = tmp_path / "journal"
    ends = write_journal(file)
    for garbage in (b"\0" * 100, b"\xff", b"[]\n;\n", b"5\n;\n", b'["arn:t","a","b",null]\n'):
        with file.open("r+b") as end:
            end.truncate(ends[-1])
            end.seek(0, os.SEEK_END)
            end.write(garbage)
        assert [change for change, _ in journal.read(file)] == CHANGES


def test_a_change_that_is_dropped_leaves_no_trace(tmp_path: Path) -> None:
    file = tmp_path / "journal"
    ends = write_journal(file)
    again = Journal(file, ends[1])  # the third change is dropped, too
    again.write(CHANGES[0][0])
    again.drop()
    again.write(CHANGES[2][0])
    again.commit()
    assert again.end == ends[2]
    assert [change for change, _ in journal.read(file)] == CHANGES
