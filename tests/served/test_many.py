"""What takes more than one transaction, tried on the embedded cloud."""

from concurrent.futures import ThreadPoolExecutor

from tests.conftest import Served
from tests.transports import Client

EDGES = "/edges/https"


def test_an_edge_is_deleted_with_all_routes_that_it_can_have(served: Served) -> None:
    admin = served.newcomer().client()
    edge = admin.create(EDGES, {"hostports": ["many.example.com:443"]})
    routes = f"{EDGES}/{edge['id']}/routes"

    def add(number: int) -> int:
        return admin.post(routes, {"match_type": "exact_path", "match": f"/{number}", "user_agent_filter": {}}).status

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(add, range(100))) == {201}
    assert len(admin.get(f"{EDGES}/{edge['id']}").json["routes"]) == 100
    assert admin.delete(f"{EDGES}/{edge['id']}").status == 204
    assert admin.get(routes).status == 404
    other: Client = served.newcomer().client()
    assert other.create(EDGES, {"hostports": ["many.example.com:443"]})["hostports"] == ["many.example.com:443"]
