"""The memory of this process: how seldom Python looks for unused cycles in it, and what goes back to the system."""

import ctypes
import gc

_COLLECTED = 10_000  # new objects between two collections; Python's own 700 cost a fifth of a start


def trim() -> None:
    """Return to the system what was freed, where the C library can."""
    if give_back := getattr(ctypes.CDLL(None), "malloc_trim", None):
        give_back(0)


def collect_seldom() -> None:
    """Leave what is loaded out of all later collections of garbage, and have fewer of them."""
    gc.freeze()
    gc.set_threshold(_COLLECTED)
