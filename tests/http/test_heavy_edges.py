"""HTTPS edges with the heaviest routes there may be: Lambda, which answers with 6 MB, can show each of them whole."""

import json

from chalicelib import ids
from tests.conftest import Served
from tests.refusals import assert_refused

TOO_MUCH = "The edge's routes would have more than 5000000 characters together: it could not show them."
NO_ROUTE = "This account has nothing of that id under /edges/https/{edge_id}/routes."
EMAILS = [f"{number:03}{chr(0x1F600) * 61}@example.io" for number in range(900)]
SECRET = "\0" * 1024
OAUTH = {"provider": {"google": {"email_addresses": EMAILS, "client_id": SECRET, "client_secret": SECRET}}}


def raw(**body: object) -> bytes:
    """As UTF-8, four bytes for each emoji: JSON in JSON makes fourteen characters of it."""
    return json.dumps(body, ensure_ascii=False).encode()


def test_an_edge_has_no_more_routes_than_it_can_show(served: Served) -> None:
    client = served.newcomer().client()
    edge = f"/edges/https/{client.create('/edges/https', {})['id']}"
    path, heavy = f"{edge}/routes", raw(match_type="exact_path", match="/heavy", oauth=OAUTH)
    light = f"{path}/{client.create(path, {'match_type': 'exact_path', 'match': '/'})['id']}"
    routes = [
        client.create(path, raw(match_type="exact_path", match=f"/{number}", oauth=OAUTH))["id"] for number in range(6)
    ]
    for refused in (client.post(path, heavy), client.put(f"{light}/oauth", raw(**OAUTH)), client.patch(light, heavy)):
        assert_refused(refused, 409, "conflict", TOO_MUCH)
    shown = client.get(edge)
    assert [route["oauth"] is None for route in shown.json["routes"]] == [False] * 6 + [True]
    assert 4_500_000 < len(json.dumps(shown.text)) < 6 * 1024 * 1024
    nobody = f"{path}/{ids.new('edghtsrt')}"
    assert_refused(client.patch(nobody, heavy), 404, "not_found", NO_ROUTE)
    assert client.put(f"{nobody}/oauth", raw(**OAUTH)).status == 200  # of a route that the edge does not show
    assert client.put(f"{path}/{routes[0]}/oauth", raw(**OAUTH)).status == 200  # in the place of what is there
    assert client.delete(f"{path}/{routes[0]}/oauth").status == 204
    assert client.post(path, heavy).status == 201
