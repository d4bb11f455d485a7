"""The committed table of paths and files."""

from app import app
from chalicelib import route_table, routes
from chalicelib.http.middleware import ANY_METHOD
from infra.build import route_table as built


def test_the_committed_table_is_the_one_of_the_code() -> None:
    assert built.FILE.read_text(encoding="utf-8") == built.text(), "run 'make openapi', and commit the table"


def test_the_app_serves_all_endpoints_and_asks_for_a_token_where_they_say_so() -> None:
    declared = {
        (endpoint.method, endpoint.path): endpoint.authorizer
        for served in routes.ALL
        for endpoint in served.endpoints()
    }
    registered = {
        (method, path): entry.authorizer
        for path, methods in app.routes.items()
        for method, entry in methods.items()
        if method != ANY_METHOD
    }
    assert registered == declared
    assert {path for (_, path), authorizer in declared.items() if authorizer is None} == route_table.OPEN
