"""What the system tells of the connections of the link."""

import socket
import struct

from edge.link import sockets


def test_a_connection_has_gone_when_its_other_side_neither_sends_nor_reads() -> None:
    here, there = socket.socketpair()
    with here, there:
        assert not sockets.has_gone(here)
        there.shutdown(socket.SHUT_WR)
        assert not sockets.has_gone(here)
        there.close()
        assert sockets.has_gone(here)


def test_a_connection_that_was_reset_has_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        there = socket.create_connection(listening.getsockname())
        here, _ = listening.accept()
        with here:
            there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            there.close()
            assert sockets.has_gone(here)


def test_of_a_connection_that_is_closed_here_nothing_is_told() -> None:
    here, there = socket.socketpair()
    here.close()
    there.close()
    assert not sockets.has_gone(here)
