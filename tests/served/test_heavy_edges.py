"""HTTPS edges with the most and largest routes that there may be: Lambda, which answers with 6 MB, can show each."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from infra.build.openapi import budgets
from tests.conftest import Served
from tests.transports import Client

SIX_MB = 6 * 1024 * 1024
ADDRESSES = [f"{number:04}@example.com" for number in range(758)]
OAUTH = {
    "provider": {"github": {"email_addresses": ADDRESSES, "client_id": "\0" * 14, "client_secret": "\0" * 14}},
    "options_passthrough": False,
    "cookie_prefix": "x" * 64,
    **dict.fromkeys(("inactivity_timeout", "maximum_duration", "auth_check_interval"), 2**32 - 1),
}
PATTERNS = [f"{number:064}" for number in range(66)] + ["b" * 48]  # words, since others cost too much
HEADERS = {
    "add": {f"X-{number}-{'n' * 60}": "v" * 200 for number in range(10)},
    "remove": [f"X-{number}-{'r' * 60}" for number in range(10)],
}
LARGEST = {
    "match_type": "path_prefix",
    "description": "\0" * 255,
    "metadata": "\0" * 2340,
    "oauth": OAUTH,
    "user_agent_filter": {"allow": PATTERNS, "deny": PATTERNS},
    "request_headers": HEADERS,
    "response_headers": HEADERS,
    "webhook_verification": {"provider": "GITHUB", "secret": '"' * 255},
    "compression": {},
    "circuit_breaker": {},
}


def encoded(text: str) -> int:
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
    shown = client.get(edge)
    assert len(shown.json["routes"]) == 100
    sizes = [encoded(json.dumps(route, separators=(",", ":"))) for route in shown.json["routes"]]
    assert 0.9 * budgets.ROUTE < min(sizes) <= max(sizes) < budgets.ROUTE, sizes
    for answer in (shown, client.get("/edges/https")):
        assert answer.status == 200
        assert encoded(answer.text) < SIX_MB
