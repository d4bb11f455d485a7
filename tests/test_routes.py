"""The routes of the API: each is declared once."""

from collections import Counter

from chalicelib import routes


def test_no_route_is_declared_twice() -> None:
    endpoints = [endpoint for each in routes.ALL for endpoint in each.endpoints()]
    counted = Counter((endpoint.method, endpoint.path) for endpoint in endpoints)
    assert [route for route, count in counted.items() if count > 1] == []


def test_all_but_the_page_and_what_leads_to_it_are_documented() -> None:
    documented = {endpoint.path for each in routes.DOCUMENTED for endpoint in each.endpoints()}
    assert {endpoint.path for each in routes.ALL for endpoint in each.endpoints()} - documented == {"/", "/docs"}
