"""The resources of the API: one file per table of SPEC 2.2–2.8, named like its path.

Each file declares its RESOURCE. A file without one contains what other files share.
"""

from importlib import import_module
from pkgutil import iter_modules

from chalicelib.http.resource import Resource

ALL: tuple[Resource, ...] = tuple(
    module.RESOURCE
    for file in sorted(iter_modules(__path__), key=lambda it: it.name)
    if hasattr(module := import_module(f"{__name__}.{file.name}"), "RESOURCE")
)
