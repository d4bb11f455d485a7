"""Headers that a route adds to requests and responses, and removes from them. Pure."""

from collections.abc import Iterator, Mapping

from chalicelib.model.edges.served import Modules
from edge.envoy import v3


def add_changes(route: v3.Route, modules: Modules) -> None:
    """Add the changes of headers to a route that leads to an upstream. Envoy removes headers first."""
    if changes := modules.request_headers:
        route.request_headers_to_remove.extend(changes.remove)
        route.request_headers_to_add.extend(_replacing(changes.add))
    if changes := modules.response_headers:
        route.response_headers_to_remove.extend(changes.remove)
        route.response_headers_to_add.extend(_replacing(changes.add))


def _replacing(headers: Mapping[str, str]) -> Iterator[v3.HeaderValueOption]:
    """Yield headers that replace those of the same name. A percent sign would begin one of Envoy's own values."""
    for name, value in headers.items():
        yield v3.HeaderValueOption(
            header=v3.HeaderValue(key=name, value=value.replace("%", "%%")),
            append_action=v3.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD,
            keep_empty_value=True,
        )
