"""Memory of the API's warm function after 10,000 requests, compared with after 100.

The function runs from the package in its own process, whose memory is read from outside.
"""

import json
import subprocess

import psutil

from bench import package, requests, results
from bench.engines import Setting
from bench.results import Result

FIRST, LAST = 100, 10_000
_OURS = """
import itertools, json, app
events = itertools.cycle(sys.argv[2:])
for count in sys.stdin:
    for event in itertools.islice(events, int(count)):
        assert app.app(json.loads(event), None)["statusCode"] < 300
    print("answered", flush=True)
"""


def measure(setting: Setting) -> Result:
    with package.unpacked() as python:
        command = [*python, _OURS, *map(json.dumps, _events(setting))]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as function:
            before, after = _measure_after(FIRST, function), _measure_after(LAST - FIRST, function)
    return Result([results.at_most(1.05, f"memory after {LAST:,} requests: after {FIRST}", after, before, results.mib)])


def _measure_after(count: int, function: subprocess.Popen[str]) -> int:
    """Return the resident bytes of the function after `count` more requests."""
    assert function.stdin
    assert function.stdout
    print(count, file=function.stdin, flush=True)
    if "answered\n" not in function.stdout:  # skips the service's log
        raise RuntimeError("The function's process ended unexpectedly.")
    resident: int = psutil.Process(function.pid).memory_info().rss
    return resident


def _events(setting: Setting) -> list[dict[str, object]]:
    """Return ten requests: eight reads, a list and a new certificate."""
    usual = requests.usual(setting.token, setting.context)
    return [*[usual["get"](0)] * 8, usual["list of 100"](0), usual["certificate"](0)]
