"""Headers that a route adds to requests: the errors of the API, and what audit events show."""

from tests.refusals import assert_invalid
from tests.transports import Client

PATH = "/edges/https/{edge_id}/routes/{id}/request_headers"


def path(admin: Client) -> str:
    edge = admin.create("/edges/https", {})["id"]
    route = admin.create(f"/edges/https/{edge}/routes", {"match_type": "path_prefix", "match": "/"})["id"]
    return PATH.format(edge_id=edge, id=route)


def test_each_wrong_name_and_value_is_reported(admin: Client) -> None:
    body = {"add": {"Host": "a", "X-A": "a\nb"}, "remove": ["X-Forwarded-For", "X-B"]}
    details = admin.put(path(admin), body).json["details"]
    assert sorted(details.keys() - {"operation_id"}) == ["add.Host", "add.X-A", "remove.0"], details
    twice = admin.put(path(admin), {"add": {"X-A": "", "x-a": ""}})
    assert_invalid(twice, {"add": "must not contain a header twice: names are case-insensitive"})


def test_null_adds_and_removes_nothing(admin: Client) -> None:
    answer = admin.put(path(admin), {"add": None, "remove": None})
    assert answer.json == {"enabled": True, "add": {}, "remove": []}


def test_an_audit_event_has_no_value(admin: Client) -> None:
    admin.put(path(admin), {"add": {"Authorization": "Basic c2VjcmV0"}})
    assert "c2VjcmV0" not in admin.get("/audit_events").text
