"""The memory of this process: returned to the system, and garbage-collected rarely."""

import ctypes
import gc

_THRESHOLD = 10_000  # new objects between two collections; with Python's default of 700 a start takes a fifth longer


def trim() -> None:
    """Return freed memory to the system, if the C library can."""
    if malloc_trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        malloc_trim(0)


def collect_seldom() -> None:
    """Collect garbage less often, and never the objects that exist now."""
    gc.freeze()
    gc.set_threshold(_THRESHOLD)
