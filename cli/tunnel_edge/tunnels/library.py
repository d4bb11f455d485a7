"""Imports asyncssh without its search for optional C libraries."""

import ctypes.util


def import_asyncssh() -> None:
    """Import asyncssh without liboqs and nettle.

    It would look for both with programs of the linker, which takes longer than a connection. Their algorithms are
    alternatives to those of cryptography.
    """
    find = ctypes.util.find_library
    ctypes.util.find_library = lambda name: None
    try:
        import asyncssh  # noqa: F401
    finally:
        ctypes.util.find_library = find
