"""Keys and certificates as pure functions of text and bytes.

Each module is imported on first use, so `from chalicelib import crypto` does not import the library cryptography.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chalicelib.crypto import (
        authorities,
        chains,
        keys,
        krl,
        packed_revocations,
        pem,
        private_keys,
        public_keys,
        ssh_certificates,
        x509,
    )

__all__ = [
    "authorities",
    "chains",
    "keys",
    "krl",
    "packed_revocations",
    "pem",
    "private_keys",
    "public_keys",
    "ssh_certificates",
    "x509",
]


def __getattr__(name: str) -> ModuleType:
    """Import a module of the package on first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
