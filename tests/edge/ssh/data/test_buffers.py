"""How the buffers of a gateway are shared by tunnels, and given back: as a rule."""

import pytest

from edge.ssh.data.buffers import MIN_WINDOW, Buffers, Window

MAX_BYTES = 2 << 20  # bytes of one channel


def _grown(buffers: Buffers, tunnel: str, channels: int) -> list[Window]:
    """Return the windows of channels that are read as fast as they may be."""
    windows = [buffers.open_window(tunnel) for _ in range(channels)]
    for _ in range(10):
        for window in windows:
            window.on_read(window.size)
    return windows


@pytest.mark.parametrize(
    ("max_bytes", "channels", "expected"),
    [
        (64 << 20, 1, MAX_BYTES),
        (3 * MIN_WINDOW, 1, MIN_WINDOW),
        (4 * MIN_WINDOW, 1, 2 * MIN_WINDOW),
        (64 << 20, 16, 32 << 20),  # half of all
        (64 << 20, 400, 400 * MIN_WINDOW),  # each has the least, whatever is left
    ],
)
def test_a_tunnel_has_what_it_leaves_for_the_others(max_bytes: int, channels: int, expected: int) -> None:
    buffers = Buffers(max_bytes)
    _grown(buffers, "tn_1", channels)
    assert buffers.usage == expected


def test_tunnels_share_the_budget_and_a_new_one_always_finds_something() -> None:
    buffers = Buffers(256 << 20)
    sizes = [sum(window.size for window in _grown(buffers, f"tn_{number}", 64)) for number in range(3)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] > 64 * MIN_WINDOW
    assert buffers.usage == sum(sizes) <= 256 << 20


def test_what_is_given_back_is_everybodys() -> None:
    buffers = Buffers(64 << 20)
    before = _grown(buffers, "tn_1", 16)
    for window in (*before, *before):
        window.close()
    assert (buffers.usage, buffers.released) == (0, 32 << 20)
    _grown(buffers, "tn_2", 16)
    assert buffers.usage == 32 << 20


@pytest.mark.parametrize(("max_bytes", "grows"), [(3 * MIN_WINDOW, False), (4 * MIN_WINDOW, True)])
def test_a_window_tells_whether_it_has_become_larger(max_bytes: int, grows: bool) -> None:
    window = Buffers(max_bytes).open_window("tn_1")
    assert (window.on_read(MIN_WINDOW - 1), window.on_read(1)) == (False, grows)


@pytest.mark.parametrize(
    ("reads", "size"),
    [([MIN_WINDOW - 1], MIN_WINDOW), ([MIN_WINDOW], 2 * MIN_WINDOW), ([MIN_WINDOW, MIN_WINDOW], 2 * MIN_WINDOW)],
)
def test_a_window_doubles_once_a_whole_one_was_read(reads: list[int], size: int) -> None:
    window = Buffers(64 << 20).open_window("tn_1")
    for count in reads:
        window.on_read(count)
    assert window.size == size
