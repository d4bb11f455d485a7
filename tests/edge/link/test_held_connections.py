"""Two joined connections, without I/O: what each receives reaches the other, and so do their ends."""

from typing import Any, cast

import pytest

from edge.link.held_connections import HeldConnection, Side


class Wire:
    """A transport that records the calls of its protocol."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *data: self.calls.append(" ".join([name, *(argument.decode() for argument in data)]))


def connect(side: Side) -> Wire:
    wire = Wire()
    side.connection_made(cast(Any, wire))
    return wire


def test_what_came_before_is_passed_on_when_a_connection_is_joined() -> None:
    connection, other = HeldConnection(None, lambda _: None), Side()
    wire, far = connect(connection), connect(other)
    connection.data_received(b"early")
    connection.eof_received()
    assert (wire.calls, far.calls) == (["pause_reading"], ["pause_reading"])
    connection.join(other)
    assert far.calls == ["pause_reading", "write early", "write_eof", "resume_reading"]
    other.data_received(b"answer")
    other.eof_received()
    assert wire.calls == ["pause_reading", "resume_reading", "write answer", "write_eof", "close"]


def test_a_side_that_writes_too_fast_is_paused() -> None:
    first, second = Side(), Side()
    connect(first)
    far = connect(second)
    first.join(second)
    first.pause_writing()
    first.resume_writing()
    assert far.calls[-2:] == ["pause_reading", "resume_reading"]


@pytest.mark.parametrize("is_joined", [False, True])
def test_the_end_of_a_held_connection_is_reported_and_closes_the_other(is_joined: bool) -> None:
    ended_connections: list[HeldConnection] = []
    connection, other = HeldConnection(None, ended_connections.append), Side()
    connect(connection)
    far = connect(other)
    if is_joined:
        connection.join(other)
    connection.connection_lost(None)
    assert ended_connections == [connection]
    assert ("close" in far.calls) is is_joined


def test_a_connection_that_has_gone_before_it_is_joined_closes_the_other() -> None:
    connection, other = HeldConnection(None, lambda _: None), Side()
    connect(connection)
    far = connect(other)
    connection.connection_lost(None)
    connection.join(other)
    assert "close" in far.calls
