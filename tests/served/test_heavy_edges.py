"""HTTPS edges with the most and largest routes that there may be: Lambda, which answers with 6 MB, can show each."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from chalicelib.model.base import kinds
from infra.build.openapi import budgets
from tests.conftest import Served
from tests.modules import largest
from tests.transports import Client

SIX_MB = 6 * 1024 * 1024
LARGEST = {
    "match_type": "path_prefix",
    "description": "\0" * 255,
    "metadata": "\0" * 2340,
    **largest.make_compatible(kinds.HTTPS_EDGE_ROUTES),
}


def measure_encoded(text: str) -> int:
    """Return an answer as Lambda counts it: its text stands in JSON."""
    return len(json.dumps(text))


def match(number: int) -> str:
    return f"/{number:03}" + "\\" * 1020


def create(client: Client, path: str, numbers: range) -> Counter[int]:
    """Return the statuses of creations, fifty at once."""
    with ThreadPoolExecutor(50) as threads:
        answers = threads.map(lambda number: client.post(path, {**LARGEST, "match": match(number)}), numbers)
        return Counter(answer.status for answer in answers)


def test_a_hundred_routes_at_their_largest_fit_one_answer(served: Served) -> None:
    client = served.newcomer().client()
    edge = f"/edges/https/{client.create('/edges/https', {'metadata': chr(0) * 4096})['id']}"
    assert create(client, f"{edge}/routes", range(60)) == {201: 60}
    assert create(client, f"{edge}/routes", range(60, 110)) == {201: 40, 409: 10}
    edge_answer = client.get(edge)
    assert len(edge_answer.json["routes"]) == 100
    sizes = [measure_encoded(json.dumps(route, separators=(",", ":"))) for route in edge_answer.json["routes"]]
    assert 0.9 * budgets.ROUTE < min(sizes) <= max(sizes) < budgets.ROUTE, sizes
    for answer in (edge_answer, client.get("/edges/https")):
        assert answer.status == 200
        assert measure_encoded(answer.text) < SIX_MB
