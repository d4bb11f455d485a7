"""Registers endpoints with the Chalice app. The first request of an endpoint imports the file that serves it."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from chalice.app import Chalice, Response

from chalicelib.http import endpoints
from chalicelib.http.endpoints import AUTHORIZER, Endpoint, Routes
from chalicelib.http.middleware import ANY_METHOD, ANY_PATH, Methods, Raised
from chalicelib.http.static import BINARY

Files = Mapping[str, Mapping[str, str]]  # for each Python file: the paths that it serves, and the methods of each path
# values of AWS_LAMBDA_INITIALIZATION_TYPE with which Lambda starts a process before its first request
_EARLY = {"provisioned-concurrency", "snap-start"}


def serve(app: Chalice, routes: Iterable[Routes]) -> None:
    """Register endpoints with the app."""
    for route in routes:
        for endpoint in route.endpoints():
            _register(app, endpoint.method, endpoint.path, endpoints.make_view(app, endpoint), endpoint.authorizer)
    _add_fallbacks(app)


def serve_files(app: Chalice, files: Files, is_open: Collection[str]) -> None:
    """Register paths with the app. The file of a path is imported at the first request.

    If Lambda starts processes early, all files are imported now. `is_open` has the paths that require no token.
    """
    for file, paths in files.items():
        for path, methods in paths.items():
            for method in methods.split():
                view = _build_view(app, file, method, path)
                _register(app, method, path, view, None if path in is_open else AUTHORIZER)
    _add_fallbacks(app)
    if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") in _EARLY:
        for file in files:
            import_module(file)


@cache
def load_endpoints(file: str) -> Mapping[tuple[str, str], Endpoint]:
    """Import a file and return its endpoints by method and path."""
    return {(endpoint.method, endpoint.path): endpoint for route in load_routes(file) for endpoint in route.endpoints()}


def load_routes(file: str) -> tuple[Routes, ...]:
    """Import a file and return the objects that declare its endpoints.

    These are the RESOURCE, ROUTES and MODULES of the file, if any.
    """
    attributes = vars(import_module(file))
    return (
        *(attributes[name] for name in ("RESOURCE", "ROUTES") if name in attributes),
        *attributes.get("MODULES", ()),
    )


def _build_view(app: Chalice, file: str, method: str, path: str) -> Callable[..., Response]:
    """Return a view function that imports a file at the first request. Later requests use the view of the file."""

    def view(**values: str) -> Response:
        try:
            imported_view = endpoints.make_view(app, load_endpoints(file)[method, path])
        except Exception as error:
            raise Raised from error
        app.routes[path][method].view_function = imported_view
        return imported_view(**values)

    return view


def _register(app: Chalice, method: str, path: str, view: Callable[..., Response], authorizer: Any) -> None:
    app.route(path, methods=[method], content_types=[], authorizer=authorizer)(view)


def _add_fallbacks(app: Chalice) -> None:
    """Register fallback routes for requests without an endpoint: other methods of each path, and all other paths."""
    # Chalice compares the media type of every response with each entry of this list, so its long default is replaced
    app.api.binary_types = [BINARY]
    for path in {"/": None, ANY_PATH: None, **dict.fromkeys(app.routes)}:
        app.route(path, methods=[ANY_METHOD], content_types=[])(_do_nothing)
        app.routes[path] = Methods(app.routes[path])


def _do_nothing() -> None:
    """Do nothing. Chalice requires a view for each fallback, but the middleware answers these requests."""
