"""The routes of the API: each is declared once."""

from collections import Counter

from chalicelib import routes


def test_no_route_is_declared_twice() -> None:
    endpoints = [endpoint for resource in routes.ALL for endpoint in resource.endpoints()]
    counted = Counter((endpoint.method, endpoint.path) for endpoint in endpoints)
    assert [route for route, count in counted.items() if count > 1] == []


def test_all_but_the_page_and_what_leads_to_it_are_documented() -> None:
    documented = {endpoint.path for resource in routes.DOCUMENTED for endpoint in resource.endpoints()}
    assert {endpoint.path for resource in routes.ALL for endpoint in resource.endpoints()} - documented == {
        "/",
        "/docs",
    }
