"""Parallel scans: each record is handled, also after an interruption, in the memory of a few pages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chalicelib.operator.bulk import segments
from chalicelib.operator.bulk.segments import Records, ScanFolder, Selection
from chalicelib.operator.command_line import CommandError
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from tests.operator.tenants import killing

COUNT = 200


@pytest.fixture
def folder(tmp_path: Path) -> ScanFolder:
    for number in range(COUNT):
        dynamodb.do(Write.put({"scope": f"changes#{number}", "id": f"{number}", "body": {"text": "x" * 20_000}}))
    return ScanFolder(tmp_path / "scan", {"command": "a test"})


def ids(page: Records) -> Iterator[str]:
    return (str(record["id"]) for record in page)


def test_all_segments_are_read_and_progress_is_reported(folder: ScanFolder) -> None:
    reports: list[str] = []
    assert segments.scan(folder, Selection(), ids, reports.append, pause=0) == COUNT
    assert sorted(folder.lines()) == sorted(map(str, range(COUNT)))
    assert reports[-1].endswith(" segments are complete …")
    assert segments.scan(folder, Selection(), ids, reports.append) == COUNT  # reads nothing again
    assert len([*folder.lines()]) == COUNT
    folder.remove()
    assert not folder.path.exists()


def test_a_scan_that_is_killed_ten_times_has_each_record_once(folder: ScanFolder) -> None:
    killing.complete(lambda: segments.scan(folder, Selection(), ids, lambda _: None), seed=6, limit=20)
    assert sorted(folder.lines()) == sorted(map(str, range(COUNT)))


def test_an_incomplete_page_is_read_again(folder: ScanFolder) -> None:
    segments.scan(folder, Selection(), ids, lambda _: None)
    file = max(folder.path.glob("segment-*"), key=lambda path: path.stat().st_size)
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1]) + lines[-1][:5])  # the process ended while it wrote the last position
    segments.scan(folder, Selection(), ids, lambda _: None)
    assert sorted(folder.lines()) == sorted(map(str, range(COUNT)))


def test_an_error_of_one_segment_ends_the_scan(folder: ScanFolder) -> None:
    def fail(page: Records) -> Iterator[str]:
        raise CommandError("a reason")

    with pytest.raises(CommandError, match="a reason"):
        segments.scan(folder, Selection(), fail, lambda _: None)
