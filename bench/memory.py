"""Memory of the API's function, warm: after 10,000 requests against after 100."""

import itertools

import psutil

from bench import requests, results, signing
from bench.engines import Setting
from bench.results import Result

FIRST, LAST = 100, 10_000


def measure(setting: Setting) -> Result:
    process = psutil.Process()
    events = itertools.cycle(_events(setting))
    for _ in range(FIRST):
        requests.answer(next(events))
    before = process.memory_info().rss
    for _ in range(LAST - FIRST):
        requests.answer(next(events))
    after = process.memory_info().rss
    return Result([results.at_most(1.05, f"memory after {LAST:,} requests: after {FIRST}", after, before, results.mib)])


def _events(setting: Setting) -> list[dict[str, object]]:
    """Ten requests: eight reads, a short list, a new certificate."""

    def event(method: str, path: str, body: object = None) -> dict[str, object]:
        return requests.event(method, path, setting.token, body, setting.context)

    authority = requests.create("/ssh_certificate_authorities", setting.token, {})["id"]
    read = event("GET", f"/ssh_certificate_authorities/{authority}")
    page = event("GET", "/ssh_certificate_authorities?limit=10")
    certificate = event("POST", "/ssh_user_certificates", signing.asked(authority))
    return [*[read] * 8, page, certificate]
