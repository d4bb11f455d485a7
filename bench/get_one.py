"""GET of one resource, warm, the caller looked up too; against its two reads made by the same client."""

from bench import requests, results, warm
from bench.engines import Setting
from bench.results import Result

ROUNDS = 400


def measure(setting: Setting) -> Result:
    id = requests.create("/backends/weighted", setting.token, {})["id"]
    ours, raw, calls = warm.cpu(requests.event("GET", f"/backends/weighted/{id}", setting.token), ROUNDS)
    return Result([results.at_most(1.35, f"GET one, CPU: its {calls} raw reads", ours, raw, results.ms)])
