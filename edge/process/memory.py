"""The memory of this process, which the C library keeps for itself unless it is told otherwise."""

import ctypes


def trim() -> None:
    """Return to the system what was freed, where the C library can."""
    if give_back := getattr(ctypes.CDLL(None), "malloc_trim", None):
        give_back(0)
