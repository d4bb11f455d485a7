"""A list of 100, warm, behind the gateway's authorizer; against its one query made by the same client."""

from bench import requests, results, warm
from bench.engines import Setting
from bench.results import Result
from chalicelib import ids

ROUNDS = 150


def measure(setting: Setting) -> Result:
    for _ in range(101):
        requests.create("/backends/weighted", setting.token, {"backends": {ids.new("bkdhr"): 100}})
    event = requests.event("GET", "/backends/weighted", setting.token, context=setting.context)
    if len(requests.answer(event)["backends"]) != 100:
        raise RuntimeError("The list is not one of 100.")
    ours, raw, calls = warm.cpu(event, ROUNDS)
    return Result([results.at_most(1.6, f"list of 100, CPU: its {calls} raw query", ours, raw, results.ms)])
