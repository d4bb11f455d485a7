"""Writes chalicelib/route_table.py, the table of the API's paths and the file that serves each.

The paths are read from these files: `python -m infra.build.route_table`.
"""

from collections.abc import Iterator
from pkgutil import walk_packages

from chalicelib import documents, edges, exchange, modules, resources
from chalicelib.http import registration
from chalicelib.http.endpoints import Endpoint
from infra import ROOT

FILE = ROOT / "chalicelib" / "route_table.py"
_ABOUT = """\
\"\"\"The paths of the API, their methods, and the file of each. `make openapi` writes this table.\"\"\"
"""


def main() -> None:
    FILE.write_text(text(), encoding="utf-8")


def text() -> str:
    """Return the table as Python code."""
    lines, open_paths = ["FILES = {"], set[str]()
    for file, served in _endpoints_by_file():
        methods: dict[str, list[str]] = {}
        for endpoint in served:
            methods.setdefault(endpoint.path, []).append(endpoint.method)
        lines += [
            f'    "{file}": {{',
            *(f'        "{path}": "{" ".join(verbs)}",' for path, verbs in methods.items()),
            "    },",
        ]
        open_paths.update(endpoint.path for endpoint in served if not endpoint.authorizer)
    return "\n".join([_ABOUT, *lines, "}", "OPEN = {", *(f'    "{path}",' for path in sorted(open_paths)), "}", ""])


def _endpoints_by_file() -> Iterator[tuple[str, list[Endpoint]]]:
    for package in (documents, edges, exchange, modules, resources):
        for file in walk_packages(package.__path__, f"{package.__name__}."):
            if served := [*registration.load_endpoints(file.name).values()]:
                yield file.name, served


if __name__ == "__main__":
    main()
