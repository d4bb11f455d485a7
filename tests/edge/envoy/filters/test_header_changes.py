"""Headers that a route adds and removes, as messages of Envoy."""

from chalicelib.model.edges.headers.changed_headers import HeadersModule
from edge.envoy import v3
from edge.envoy.filters import header_changes
from tests.edge.envoy.filters.routes import PLAN, TARGET


def test_a_header_replaces_that_of_the_visitor_and_its_value_is_no_template() -> None:
    route = v3.Route()
    module = HeadersModule(add={"X-Rate": "100%", "X-Empty": ""}, remove=["X-Debug"])
    header_changes.change_requests(route, module, PLAN, TARGET)
    assert [(option.header.key, option.header.value) for option in route.request_headers_to_add] == [
        ("X-Rate", "100%%"),
        ("X-Empty", ""),
    ]
    assert {option.append_action for option in route.request_headers_to_add} == {
        v3.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
    }
    assert all(option.keep_empty_value for option in route.request_headers_to_add)
    assert [*route.request_headers_to_remove] == ["X-Debug"]
    assert not route.response_headers_to_add


def test_responses_have_changes_of_their_own() -> None:
    route = v3.Route()
    header_changes.change_responses(route, HeadersModule(add={"A": "b"}, remove=["Server"]), PLAN, TARGET)
    assert not route.request_headers_to_add
    assert ([option.header.key for option in route.response_headers_to_add], [*route.response_headers_to_remove]) == (
        ["A"],
        ["Server"],
    )
