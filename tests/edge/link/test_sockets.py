"""The state of a connection, and the address of a socket, as the system knows them."""

import socket
import struct
from pathlib import Path

import pytest

from edge.link import sockets
from edge.process import files


def test_a_connection_has_gone_when_its_other_side_neither_sends_nor_reads() -> None:
    own_side, other_side = socket.socketpair()
    with own_side, other_side:
        assert not sockets.is_closed_by_peer(own_side)
        other_side.shutdown(socket.SHUT_WR)
        assert not sockets.is_closed_by_peer(own_side)
        other_side.close()
        assert sockets.is_closed_by_peer(own_side)


def test_a_connection_that_was_reset_has_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        server_side, _ = listening.accept()
        with server_side:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            assert sockets.is_closed_by_peer(server_side)


def test_of_a_connection_that_is_closed_here_nothing_is_told() -> None:
    own_side, other_side = socket.socketpair()
    own_side.close()
    other_side.close()
    assert not sockets.is_closed_by_peer(own_side)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("near/gw-1.sock", "near/gw-1.sock"),
        ("near/absent.sock", ""),
        ("absent/gw-1.sock", ""),
        (f"near/{'x' * 300}", ""),
        (f"{'x' * 100}/gw-1.sock", ""),
    ],
)
def test_a_socket_has_an_address_where_one_is_found_that_is_short_enough(
    tmp_path: Path, name: str, expected: str
) -> None:
    for folder in ("near", "x" * 100):
        (tmp_path / folder).mkdir()
        with (
            files.shorten_socket_path(tmp_path / folder / "gw-1.sock") as short,
            socket.socket(socket.AF_UNIX) as listening,
        ):
            listening.bind(str(short))
    assert sockets.address(tmp_path / name, tmp_path / "other") == (str(tmp_path / expected) if expected else "")


def test_a_socket_has_a_short_address_in_the_folder_of_its_reader(tmp_path: Path) -> None:
    with files.shorten_socket_path(tmp_path / "gw-1.sock") as short, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(short))
    assert sockets.address(tmp_path / "gw-1.sock", tmp_path) == "gw-1.sock"


def test_of_the_sockets_in_a_folder_those_at_which_nobody_listens_are_removed(tmp_path: Path) -> None:
    live, stale = tmp_path / "gw-1.sock", tmp_path / "gw-2.sock"
    with files.shorten_socket_path(live) as short, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(short))
        listening.listen(0)
        with files.shorten_socket_path(stale) as other, socket.socket(socket.AF_UNIX) as closed:
            closed.bind(str(other))
        for _ in range(3):  # also when its queue is full
            sockets.remove_stale([live, stale])
    assert list(tmp_path.iterdir()) == [live]
