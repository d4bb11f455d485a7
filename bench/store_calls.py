"""The number of store calls of a request, including the lookup of its caller."""

from collections import Counter
from typing import Any

from bench import calls, requests, results
from bench.engines import Setting
from bench.results import Result, Row

FEWEST = {
    "get": Counter(read=2),
    "list of 100": Counter(read=2),
    "create": Counter(read=1, write=1),
    "certificate": Counter(read=2, write=1),  # the second read: the authority, and whether it has revoked the key
    "page of 100 edges": Counter(read=3),  # the caller, the edges, and all their routes
}
_EDGES = "/edges/https"


def measure(setting: Setting) -> Result:
    events = {name: make(0) for name, make in requests.usual(setting.token).items()}
    events["page of 100 edges"] = _edges(setting.token)
    return Result([_row(name, fewest, events[name]) for name, fewest in FEWEST.items()])


def _edges(token: str) -> dict[str, Any]:
    """Create 100 edges with two routes each. Return the request for a page of them."""
    for _ in range(100):
        id = requests.create(_EDGES, token, {})["id"]
        for match in ("/", "/api"):
            requests.create(f"{_EDGES}/{id}/routes", token, {"match_type": "path_prefix", "match": match})
    return requests.event("GET", _EDGES, token)


def _row(name: str, must: Counter[str], event: dict[str, object]) -> Row:
    with calls.recording("dynamodb", "kms") as trace:
        requests.answer(event)
    counted = Counter(call.kind for call in trace)
    ratio = counted.total() / must.total()
    return results.exactly(f"store calls, {name}: the fewest", _describe(counted), _describe(must), ratio)


def _describe(counted: Counter[str]) -> str:
    return ", ".join(f"{counted[kind]} {kind}" for kind in sorted(counted))
