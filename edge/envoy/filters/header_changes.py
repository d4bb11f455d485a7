"""Headers that a route adds to requests and responses, and removes from them. This file does no I/O."""

from collections.abc import Iterator, Mapping

from chalicelib.model.edges.headers.changed_headers import HeadersModule
from chalicelib.model.serving.edge_plans import Plan, RouteTarget
from edge.envoy import v3


def change_requests(route: v3.Route, changes: HeadersModule, _plan: Plan, _target: RouteTarget) -> None:
    """Change the headers of requests to an upstream. Envoy removes headers before it adds others."""
    route.request_headers_to_remove.extend(changes.remove)
    route.request_headers_to_add.extend(_build_options(changes.add))


def change_responses(route: v3.Route, changes: HeadersModule, _plan: Plan, _target: RouteTarget) -> None:
    """Change the headers of responses from an upstream. Envoy removes headers before it adds others."""
    route.response_headers_to_remove.extend(changes.remove)
    route.response_headers_to_add.extend(_build_options(changes.add))


def _build_options(headers: Mapping[str, str]) -> Iterator[v3.HeaderValueOption]:
    """Yield options that set headers and replace existing values.

    Percent signs are doubled, because Envoy treats a single percent sign as the start of a command.
    """
    for name, value in headers.items():
        yield v3.HeaderValueOption(
            header=v3.HeaderValue(key=name, value=value.replace("%", "%%")),
            append_action=v3.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD,
            keep_empty_value=True,
        )
