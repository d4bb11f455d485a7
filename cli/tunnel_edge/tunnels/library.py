"""Imports asyncssh without its search for optional C libraries, and without X.509 certificates."""

import ctypes.util
import sys

_X509 = "asyncssh.crypto.x509"


def import_asyncssh() -> None:
    """Import asyncssh without liboqs, nettle and X.509.

    asyncssh searches for both libraries by running the linker, which takes longer than to connect. The package
    cryptography has all algorithms that are needed. X.509 needs pyOpenSSL, which is not installed, but asyncssh notices
    that only after it has imported much of cryptography.
    """
    find = ctypes.util.find_library
    ctypes.util.find_library = lambda name: None
    sys.modules.setdefault(_X509, None)  # type: ignore[arg-type] # an import of None is an ImportError
    try:
        import asyncssh  # noqa: F401
    finally:
        ctypes.util.find_library = find
