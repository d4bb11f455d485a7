"""The resources of the API: one file per table of SPEC 2.2–2.8, named like its path.

Each file declares its RESOURCE. A file without a RESOURCE has what other files share.
"""

from importlib import import_module
from pkgutil import walk_packages

from chalicelib.http.resource import Resource

ALL: tuple[Resource, ...] = tuple(
    module.RESOURCE
    for file in sorted(walk_packages(__path__, f"{__name__}."), key=lambda it: it.name.rpartition(".")[2])
    if hasattr(module := import_module(file.name), "RESOURCE")
)
