"""Atomic writes, locks, and short paths of sockets."""

import os
import socket
from pathlib import Path

import pytest

from edge.process import files


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_file_is_replaced_with_its_mode(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "key"
    file.write_text("a longer text before")
    (tmp_path / ".key").write_text("what an interrupted write has left")
    earlier = file.stat().st_ino
    files.replace(file, b"new", mode=mode)
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"new", mode)
    assert file.stat().st_ino != earlier  # a reader of the earlier file still has all of it
    assert os.listdir(tmp_path) == ["key"]


def test_a_file_stays_as_it_is_if_its_folder_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("before")
    (tmp_path / ".key").mkdir()
    with pytest.raises(IsADirectoryError):
        files.replace(file, b"new")
    assert file.read_text() == "before"


def test_only_one_process_has_a_lock(tmp_path: Path) -> None:
    file = tmp_path / "edge.lock"
    assert [files.lock(file), files.lock(file), files.lock(tmp_path / "other")] == [True, False, True]


def test_a_socket_with_a_long_path_is_reached_by_a_short_one(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    listener, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    with listener, client, files.shorten_socket_path(folder / "s") as short:
        listener.bind(str(short))
        listener.listen()
        client.connect(str(short))
        assert (folder / "s").is_socket()
    assert not short.exists()  # the descriptor is closed
